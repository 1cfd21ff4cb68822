// muser._muser.Turn: the right to use something, for one thread at a time, as a context manager.
// Native, because Python may raise an exception of a signal handler (Ctrl-C) after any call, also between a
// `lock.acquire(blocking=False)` and the `try` behind it, or at the first instruction of a Python `__exit__`, and the
// right would be lost. Between a native __enter__ or __exit__ and its block there is no such place.
#include <nanobind/stl/string.h>

#include <string>
#include <thread>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/unlocked.h"
#include "core/error.h"

namespace muser::bindings {

namespace {

class Turn { // all calls with the GIL held
  public:
    Turn(nb::object open, std::string busy, std::string ended)
        : open_(std::move(open)), busy_(std::move(busy)), ended_message_(std::move(ended)) {}

    nb::object enter() {
        nb::object opened = open_(); // Python code, which may raise: before anything is taken
        if (ended_)
            throw Error(ErrorCode::closed, ended_message_);
        if (taken_)
            throw Error(ErrorCode::busy, busy_);
        taken_ = true;
        taken_by_ = std::this_thread::get_id();
        return opened;
    }

    void leave() {
        taken_ = false;
        const nb::object then = std::exchange(then_, nb::object());
        if (!then.is_valid())
            return;
        try {
            then();
        } catch (...) { // a signal handler's, perhaps before the first line of it
            then();
            throw;
        }
    }

    void end(nb::object then) {
        ended_ = true;
        if (taken_)
            then_ = std::move(then);
    }

    bool taken() const { return taken_; }

    // A signal handler runs in the middle of what its thread does: that cannot go on before the handler returns, nor can
    // another thread whose call waits for the one that was interrupted.
    bool can_be_awaited() const { return taken_by_ != std::this_thread::get_id() && !Unlocked::this_thread_is_inside(); }

  private:
    nb::object open_; // must not refer to the object that owns this one: no cycle is ever collected
    nb::object then_; // may: leaving breaks that cycle
    std::thread::id taken_by_;
    std::string busy_, ended_message_;
    bool taken_ = false;
    bool ended_ = false;
};

} // namespace

void init_turn(nb::module_ &m) {
    using namespace nb::literals;
    nb::class_<Turn>(m, "Turn")
        .def(nb::init<nb::object, std::string, std::string>(), "open"_a, nb::kw_only(), "busy"_a, "ended"_a = "")
        .def("__enter__", &Turn::enter, "What open() returns. BusyError while taken, ClosedError after end().")
        .def("__exit__", [](Turn &turn, nb::object, nb::object, nb::object) { turn.leave(); }, "kind"_a.none(), "error"_a.none(), "trace"_a.none())
        .def("end", &Turn::end, "then"_a, "Nobody enters any more. Who is inside stays, and calls then() after leaving.")
        .def_prop_ro("taken", &Turn::taken)
        .def_prop_ro("can_be_awaited", &Turn::can_be_awaited, "False where waiting for who is inside would be waiting for oneself.");
}

} // namespace muser::bindings
