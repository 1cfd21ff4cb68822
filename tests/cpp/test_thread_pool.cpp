// The thread pool's promises: every thread runs every region once, barriers order memory, idle threads
// leave the core, signals stay with the host, and shutting down or failing to start leaves nothing behind.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "callers.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/thread_pool.h"

using namespace muser;
using namespace std::chrono_literals;

namespace {

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const int kSizes[] = {1, 2, 3, 5, 16}; // the last ones have more threads than most test machines have cores

} // namespace

TEST_CASE("every region runs once on every thread and ends before run returns") {
    for (int n : kSizes) {
        CAPTURE(n);
        ThreadPool pool(n);
        CHECK(pool.size() == n);
        std::vector<int> runs(static_cast<size_t>(n), 0); // plain ints: TSan sees a missing happens-before
        const int regions = 500;
        for (int region = 0; region < regions; ++region) {
            pool.run([&](int index) { ++runs[static_cast<size_t>(index)]; });
            for (int count : runs)
                REQUIRE(count == region + 1);
        }
    }
}

TEST_CASE("the caller is thread 0 and the others keep their index") {
    ThreadPool pool(3);
    std::vector<std::thread::id> ids(3);
    pool.run([&](int index) { ids[static_cast<size_t>(index)] = std::this_thread::get_id(); });
    CHECK(ids[0] == std::this_thread::get_id());
    for (int region = 0; region < 100; ++region)
        pool.run([&](int index) {
            if (ids[static_cast<size_t>(index)] != std::this_thread::get_id())
                ids[0] = {};
        });
    CHECK(ids[0] == std::this_thread::get_id());
}

TEST_CASE("what any thread wrote before a barrier is visible to all after it") {
    for (int n : kSizes) {
        CAPTURE(n);
        ThreadPool pool(n);
        std::vector<int> written(static_cast<size_t>(n), -1);
        std::atomic<int> stale{0};
        pool.run([&](int index) {
            for (int step = 0; step < 200; ++step) {
                written[static_cast<size_t>(index)] = step;
                pool.barrier();
                for (int value : written)
                    if (value != step)
                        ++stale;
                pool.barrier(); // nobody overwrites what another still reads
            }
        });
        CHECK(stale == 0);
    }
}

TEST_CASE("regions that come at any distance find spinning, yielding and parked workers") {
    ThreadPool pool(4);
    std::vector<int> runs(4, 0);
    int regions = 0;
    for (int round = 0; round < 40; ++round)
        for (auto pause : {0us, 5us, 30us, 60us, 100us, 1000us}) {
            // Busy-wait: a sleep would round the short pauses up to the timer's slack.
            for (const auto end = std::chrono::steady_clock::now() + pause; std::chrono::steady_clock::now() < end;) {
            }
            pool.run([&](int index) {
                if (index == round % 4) // one late thread parks the others inside the region
                    std::this_thread::sleep_for(pause);
                pool.barrier();
                ++runs[static_cast<size_t>(index)];
            });
            ++regions;
        }
    for (int count : runs)
        CHECK(count == regions);
}

TEST_CASE("a single core is enough") {
    const test::OneCore one;
    if (!one.works())
        return;
    CHECK(available_cores() == 1);
    std::atomic<int> total{0};
    ThreadPool pool(8);
    for (int region = 0; region < 200; ++region)
        pool.run([&](int) {
            for (int i = 0; i < 4; ++i)
                pool.barrier();
            ++total;
        });
    CHECK(total == 1600);
}

TEST_CASE("an idle pool leaves the cores") {
    for (int n : {available_cores(), 4}) { // that many may spin; so many may not on a small machine
        CAPTURE(n);
        ThreadPool pool(n);
        pool.run([](int) {});
        std::this_thread::sleep_for(20ms); // workers spin for tens of microseconds, then park
        const double before = cpu_seconds();
        std::this_thread::sleep_for(200ms);
        CHECK(cpu_seconds() - before < 0.02);
    }
}

TEST_CASE("workers are named and leave the host's signals to the host") {
    ThreadPool pool(3);
    std::vector<int> blocked(3, 0), faults(3, 0);
    std::vector<std::string> names(3);
    pool.run([&](int index) {
        const auto i = static_cast<size_t>(index);
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        blocked[i] = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGALRM);
        faults[i] = sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGBUS);
        char name[64] = "";
        pthread_getname_np(pthread_self(), name, sizeof name);
        names[i] = name;
    });
    CHECK(blocked == std::vector<int>{0, 1, 1});
    CHECK(faults == std::vector<int>{0, 0, 0});
    CHECK(names[1] == "muser");
    CHECK(names[2] == "muser");
    CHECK(names[0] != "muser");
    sigset_t mask; // and the creating thread got its own mask back
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    CHECK(sigismember(&mask, SIGINT) == 0);
}

TEST_CASE("pools come and go, used or not, and several live side by side") {
    for (int i = 0; i < 100; ++i) {
        ThreadPool unused(3);
        ThreadPool used(2);
        int runs[2] = {0, 0};
        used.run([&](int index) { ++runs[index]; });
        CHECK(runs[0] + runs[1] == 2);
    }
}

TEST_CASE("calls may move between threads as long as they do not overlap") {
    ThreadPool pool(3);
    std::vector<int> runs(3, 0);
    for (int i = 0; i < 50; ++i)
        std::thread([&] { pool.run([&](int index) { ++runs[static_cast<size_t>(index)]; }); }).join();
    CHECK(runs == std::vector<int>{50, 50, 50});
}

TEST_CASE("a forked child can drop the pool without hanging") {
    auto pool = std::make_unique<ThreadPool>(3);
    pool->run([](int) {});
    std::this_thread::sleep_for(50ms); // parked: a destructor that waited for them would wait for ever
    std::cout.flush(); // or the child would print the buffer again
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(30);
        pool.reset();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    int runs[3] = {0, 0, 0};
    pool->run([&](int index) { ++runs[index]; }); // the parent's pool is unharmed
    CHECK(runs[0] + runs[1] + runs[2] == 3);
}

TEST_CASE("a thread count out of range is refused with its value") {
    for (int n : {0, -1, 1025, 1 << 30}) {
        CAPTURE(n);
        try {
            ThreadPool pool(n);
            FAIL("accepted");
        } catch (const Error &error) {
            CHECK(error.code() == ErrorCode::parameter);
            CHECK(error.message().find(std::to_string(n)) != std::string::npos);
        }
    }
}

TEST_CASE("when the system refuses a thread, those that started are stopped and the error says how far it came") {
    if (geteuid() != 0)
        return; // the limit below counts all processes of a user, so it needs a user of its own
    std::cout.flush();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(30);
        const rlimit four{4, 4};
        if (setrlimit(RLIMIT_NPROC, &four) != 0 || setuid(54321) != 0)
            _exit(2);
        try {
            ThreadPool pool(64);
        } catch (const Error &error) {
            _exit(error.code() == ErrorCode::out_of_memory && error.message().find("of 64") != std::string::npos ? 0 : 3);
        }
        _exit(4);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
