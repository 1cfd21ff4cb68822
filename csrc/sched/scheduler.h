// Level 1: who owns the accelerator next. No model, no device, no Python in here.
// Policy: exclusive; a waiting decoder goes before any prefill; decoders take turns in ascending cyclic
// order after the last one; a group acquires once for all its rows; a prefill that has waited for
// `prefill_patience` decode turns goes next, with one chunk (chunk_rule.h). Prefills are FIFO among themselves; one that
// lets decoders in (pause_rule.h) goes on before the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/wait.h"

namespace muser {

using SequenceId = int32_t;

enum class Work { prefill, decode };

inline constexpr int kMaxGroup = 4; // rows of one decode group

struct SchedulerStats {
    uint64_t decode_turns = 0;
    uint64_t prefill_turns = 0;
    uint64_t patience_turns = 0;  // turns granted to a prefill by patience, over a waiting decoder
    uint64_t prefill_pauses = 0;  // times that a prefill let waiting decoders in before its turn was over
    uint64_t waiting_decodes = 0; // now
    uint64_t waiting_prefills = 0;
};

class AcceleratorScheduler {
  public:
    // Empty patience: decode is absolute. Throws Error{parameter} for patience < 1.
    explicit AcceleratorScheduler(std::optional<int> prefill_patience = 16);
    ~AcceleratorScheduler();

    // Owns the accelerator until destroyed or released.
    class Permit {
      public:
        Permit() = default;
        Permit(Permit &&) noexcept;
        Permit &operator=(Permit &&) noexcept;
        ~Permit();
        void release() noexcept;
        // Of a prefill whose pass can pause: waiting decoders get their turns by the same policy, then this one goes on,
        // before any other prefill, since the accelerator still holds half of its pass. Returns at once when no decoder
        // waits. Throws as acquire() does; then the permit is released and the pass cannot go on.
        void let_decoders_in(const Wait &wait);
        explicit operator bool() const noexcept { return owner_ != nullptr; }

      private:
        friend class AcceleratorScheduler;
        AcceleratorScheduler *owner_ = nullptr;
    };

    // Blocks until it is this sequence's turn. Throws Error{timeout | cancelled | parameter (the id is
    // already queued or running) | unhealthy | closed} or what wait.poll throws; then nothing is queued.
    Permit acquire(Work work, SequenceId sequence, const Wait &wait);
    // One turn for 1 to kMaxGroup decoders, when the first of them is next. The turn order moves past the last
    // of them, but not past a decoder that waits: an id inside the span of a group must not starve.
    Permit acquire_group(std::span<const SequenceId> sequences, const Wait &wait);

    // The sticky unhealthy state: every later acquire throws Error{unhealthy} with the first cause,
    // and every waiter wakes with it. The current permit stays valid until released.
    void latch(const std::string &cause);
    std::optional<std::string> unhealthy_cause() const;
    // Every waiter and every later acquire throws Error{closed}.
    void close();

    // Of this moment, and cheap: between two steps of a pass.
    bool decode_waiting() const; // a decoder is queued
    bool is_closed() const;
    SchedulerStats stats() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace muser
