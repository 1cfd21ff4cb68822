#include <cmath>

#include "bindings/bindings.h"
#include "core/error.h"

namespace muser::bindings {

namespace {

// Called without the GIL, from inside a wait. Only the main thread runs handlers; elsewhere this is a no-op.
void run_signal_handlers() {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0)
        throw nb::python_error();
}

constexpr double kLongest = 1e9; // seconds: beyond it a deadline is no deadline (and would overflow the clock)

} // namespace

Wait make_wait(std::optional<double> timeout) {
    Wait wait;
    wait.poll = run_signal_handlers;
    if (timeout) {
        if (!(*timeout >= 0))
            throw Error(ErrorCode::parameter, "timeout must be a number of seconds >= 0, not " + std::to_string(*timeout),
                        {{"parameter", "timeout"}, {"value", std::to_string(*timeout)}});
        if (*timeout < kLongest)
            wait.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*timeout));
    }
    return wait;
}

} // namespace muser::bindings
