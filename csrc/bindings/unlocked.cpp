#include "bindings/unlocked.h"

#include <thread>

#include "core/error.h"

namespace muser::bindings {

namespace {
std::atomic<int> threads_inside{0}; // both written with the GIL held
std::atomic<bool> exiting{false};
thread_local int calls_of_this_thread = 0;
} // namespace

Unlocked::Inside::Inside() {
    if (exiting)
        throw Error(ErrorCode::closed, "the interpreter is exiting");
    ++threads_inside;
    ++calls_of_this_thread;
}

Unlocked::Inside::~Inside() {
    --threads_inside;
    --calls_of_this_thread;
}

bool Unlocked::this_thread_is_inside() { return calls_of_this_thread > 0; }

bool Unlocked::end_all(std::chrono::milliseconds limit) {
    exiting = true;
    const auto deadline = Clock::now() + limit;
    nb::gil_scoped_release release;
    while (threads_inside > 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return threads_inside == 0;
}

void init_exit(nb::module_ &m) {
    using namespace nb::literals;
    m.def("end_all_calls", [](double limit) { return Unlocked::end_all(std::chrono::milliseconds(static_cast<int64_t>(limit * 1000))); },
          "limit"_a);
}

} // namespace muser::bindings
