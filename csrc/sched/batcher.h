// Level 2: the rendezvous. Callers bring one row each and block; the first to find no runner becomes
// the runner, waits until every slot in its decode phase has arrived or the window has passed, takes up
// to kMaxGroup rows in cyclic order, runs them, installs each row's own outcome, and wakes their owners.
// The runner borrows only the turn: rows it leaves behind elect the next runner among themselves.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

#include "core/wait.h"
#include "sched/scheduler.h"

namespace muser {

inline constexpr std::chrono::microseconds kRendezvousWindow{250};

struct BatcherStats {
    std::array<uint64_t, kMaxGroup> groups_by_width{}; // [w - 1]: passes with w rows
    uint64_t rendezvous_waits = 0;      // runners that waited for others at all
    uint64_t rendezvous_full = 0;       // of these: closed early because everyone had arrived
    uint64_t rendezvous_expired = 0;    // of these: closed by the window
    uint64_t rendezvous_wait_ns = 0;    // total time waited
    uint64_t queued = 0;                // rows waiting now
};

class DecodeBatcher {
  public:
    struct Row {
        SequenceId sequence;
        int32_t token;
        bool choice = false; // for its owner and the runner of groups
    };
    // Runs 1..kMaxGroup rows as one pass (taking the scheduler's permit itself) and returns one outcome a
    // row: null, or its own error. If it throws, every row of the group gets that error.
    using RunGroup = std::function<std::array<std::exception_ptr, kMaxGroup>(std::span<const Row>)>;
    // The time source of the window; tests pass one they control. It is read again every few hundred
    // microseconds of real time, and with a lock held: it must be quick and must not call back.
    using Now = std::function<Clock::time_point()>;

    DecodeBatcher(RunGroup run, std::chrono::microseconds window = kRendezvousWindow, Now now = {});
    ~DecodeBatcher();

    // Runs the row, alone or in company. Throws the row's own error; Error{parameter} if the sequence is
    // already queued; Error{cancelled | timeout} or what wait.poll throws, while still queued (the row is
    // then withdrawn and did not run; once taken into a group, it runs to the end).
    void decode(const Row &row, const Wait &wait);
    void decode(SequenceId sequence, int32_t token, const Wait &wait) { decode({sequence, token}, wait); }

    // A slot in its decode phase is expected at the rendezvous. decode() enters it; leave() ends it (on
    // release, prefill, cancellation, error) and closes a rendezvous that waited for nobody else. A row that
    // fails or is withdrawn leaves by itself. A slot that missed kMissesUntilForgotten windows in a row is no
    // longer expected until its next decode(), so that an idle caller costs its neighbours nothing.
    void leave(SequenceId sequence);
    int expected() const; // slots in their decode phase now
    bool expects_another(SequenceId sequence) const;
    BatcherStats stats() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

inline constexpr int kMissesUntilForgotten = 4;

} // namespace muser
