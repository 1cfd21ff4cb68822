#include "gpu.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "../runtime/reports.h"
#include "settings.h"

namespace fake {
namespace {

struct Waiting {
    std::unique_ptr<Submission> submission;
    uint32_t committed_after; // the last threadgroup that was over, for the CPU to see, at the commit
    std::map<const Store *, uint64_t> checksums;
};

struct Gpu {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Waiting> queue;
    int unfinished = 0;
    uint32_t over = 0; // number of the last threadgroup of a completed command buffer

    std::deque<std::function<void()>> handlers;
    std::condition_variable handlers_changed;
    std::thread::id handler_thread;

    Gpu() {
        std::thread([this] { run(); }).detach();
        std::thread([this] { run_handlers(); }).detach();
    }
    [[noreturn]] void run();
    [[noreturn]] void run_handlers();
    void execute(Waiting &waiting, std::mt19937 &random);
};
Gpu &gpu() {
    static Gpu *one = new Gpu; // its threads end with the process
    return *one;
}

// Small shared buffers, when nothing else runs that could change them: has the CPU?
std::map<const Store *, uint64_t> checksums(const Submission &submission) {
    std::map<const Store *, uint64_t> sums;
    for (const auto &store : submission.stores)
        if (!store->is_private && store->memory.bytes <= 256 << 10 && store->is_mapped()) sums[store.get()] = store->checksum();
    return sums;
}

bool counts_down(Number &number) {
    int64_t value = number;
    while (value > 0)
        if (number.compare_exchange_weak(value, value - 1)) return value == 1;
    return false;
}

void Gpu::execute(Waiting &waiting, std::mt19937 &random) {
    Submission &submission = *waiting.submission;
    if (const int64_t most = settings().delay_us)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<uint64_t>(most + 1)));
    submission.scheduled();
    for (const auto &[store, sum] : waiting.checksums)
        if (store->is_mapped() && store->checksum() != sum)
            msl::report("the CPU changed buffer " + std::to_string(store->id) + " between commit and execution");
    const uint32_t seed = settings().randomize ? static_cast<uint32_t>(random()) : 0;
    Executor executor(submission, waiting.committed_after, seed);
    const bool fails = counts_down(settings().fail_in), hangs = counts_down(settings().hang_in);
    Failure failure = executor.run(fails || hangs ? 0.5 : 1.0);
    if (hangs) {
        settings().release_hung.wait(0);
        settings().release_hung = 0;
        executor.resume(&failure);
    }
    if (fails) failure = {static_cast<int>(settings().fail_code.load()), "a failure that the test asked for"};
    for (const auto &store : submission.stores)
        if (store->released && !failure.code)
            msl::report("buffer " + std::to_string(store->id) + " was released before the command buffer that uses it completed");
    {
        const std::lock_guard lock(mutex);
        --unfinished;
        over = msl::last_threadgroup_number();
    }
    submission.completed(failure.code, failure.text);
    waiting.submission.reset(); // with what it holds, before anybody can count objects
}

void Gpu::run() {
    std::mt19937 random(static_cast<uint32_t>(settings().seed));
    for (;;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return !queue.empty(); });
        Waiting waiting = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        execute(waiting, random);
    }
}

void Gpu::run_handlers() {
    handler_thread = std::this_thread::get_id();
    for (;;) {
        std::unique_lock lock(mutex);
        handlers_changed.wait(lock, [this] { return !handlers.empty(); });
        auto handler = std::move(handlers.front());
        handlers.pop_front();
        lock.unlock();
        handler();
    }
}

} // namespace

void submit(std::unique_ptr<Submission> submission) {
    Gpu &g = gpu();
    std::unique_lock lock(g.mutex);
    Waiting waiting{std::move(submission), g.over, {}};
    if (!g.unfinished && settings().check) waiting.checksums = checksums(*waiting.submission);
    ++g.unfinished;
    g.queue.push_back(std::move(waiting));
    g.changed.notify_one();
}

void call_later(std::function<void()> handler) {
    const std::lock_guard lock(gpu().mutex);
    gpu().handlers.push_back(std::move(handler));
    gpu().handlers_changed.notify_one();
}

bool on_handler_thread() { return std::this_thread::get_id() == gpu().handler_thread; }

int unfinished() {
    const std::lock_guard lock(gpu().mutex);
    return gpu().unfinished;
}

} // namespace fake
