// A native call without the GIL, counted, so that the interpreter can wait for it before it finalizes.
// Python ends a daemon thread by unwinding it where it asks for the GIL back; that unwinding meets C++
// destructors, and the process aborts. So muser._exit closes all models at exit and then waits here until no
// thread is inside, while threads can still take the GIL.
#pragma once

#include <atomic>
#include <chrono>

#include "bindings/bindings.h"

namespace muser::bindings {

class Unlocked {
  public:
    Unlocked() = default;
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;

    // Called with the GIL: by a signal handler, which runs in the middle of its thread's own call.
    static bool this_thread_is_inside();

    // From now on the constructor throws Error{closed}. Called with the GIL, which is released while it waits.
    // False when a thread was still inside after `limit`.
    static bool end_all(std::chrono::milliseconds limit);

  private:
    struct Inside { // left after the GIL is back
        Inside();
        ~Inside();
    };
    Inside inside_;
    nb::gil_scoped_release release_;
};

} // namespace muser::bindings
