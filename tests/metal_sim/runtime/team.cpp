#include "team.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace msl {
namespace {

// Helpers stay for the next dispatch: a pass of a model is hundreds of small ones.
struct Team {
    std::mutex mutex;
    std::condition_variable work, done;
    const std::function<void()> *body = nullptr;
    uint32_t helpers = 0, wanted = 0, running = 0;

    [[noreturn]] void help() {
        for (;;) {
            std::unique_lock lock(mutex);
            work.wait(lock, [this] { return wanted > 0; });
            --wanted;
            const auto *mine = body;
            lock.unlock();
            (*mine)();
            lock.lock();
            if (--running == 0) done.notify_one();
        }
    }
};

} // namespace

void run_on_threads(uint32_t count, const std::function<void()> &body) {
    static Team *team = new Team; // its threads end with the process
    if (count > 1) {
        const std::lock_guard lock(team->mutex);
        for (; team->helpers < count - 1; ++team->helpers) std::thread([] { team->help(); }).detach();
        team->body = &body;
        team->wanted = team->running = count - 1;
        team->work.notify_all();
    }
    body();
    if (count > 1) {
        std::unique_lock lock(team->mutex);
        team->done.wait(lock, [] { return team->running == 0; });
    }
}

} // namespace msl
