// Everything one slot owns, in one record. Nothing in here is shared with another slot.
// The caller that drives the session (or the runner that carries its row) is the only writer; `mutex` makes
// the readers of another thread (tokens, position, logits) safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "kv/planes.h"
#include "sched/scheduler.h"
#include "session/prefix_store.h"

namespace muser {

using Logits = std::shared_ptr<const std::vector<float>>;

class Session {
  public:
    Session(SequenceId id, std::unique_ptr<KvStore> kv, RewindLimit limit) : id_(id), kv_(std::move(kv)), limit_(limit) {}

    SequenceId id() const { return id_; }
    KvStore &kv() { return *kv_; }
    std::vector<int32_t> tokens() const;
    uint32_t position() const; // rows installed; the next token's position
    Logits logits() const;     // of the last row; null before the first, after a rewind, and if nobody wanted them

    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
    void clear_cancel() { cancelled_.store(false, std::memory_order_relaxed); }
    const std::atomic<bool> &cancelled() const { return cancelled_; }

    // Makes the rows of a successful pass part of the session; logits may be null (an inner chunk).
    void install(std::span<const int32_t> tokens, Logits logits, Work work);
    // The rows [position, position + n) are about to be written: whatever happens, a ring loses what they overwrite.
    void will_write(uint32_t n);
    // Throws Error{parameter} above position() or below what the rings still hold.
    void rewind(int64_t to);
    // Empty for a new owner; the rows stay retained until the first one is written.
    void reset();

    // Rows of an earlier owner, or of before the reset, that a prompt of an empty session can take over.
    size_t reusable(std::span<const int32_t> prompt, bool prefilled_only) const;
    // Takes over the first n of them: they are the session's rows now.
    void reuse(size_t n);
    // What is retained, for `next`, whose rows become the retained ones of this empty session.
    Retained exchange(Retained next);
    size_t retained() const; // rows in the planes, the session's own or retained ones
    // Everything that a session at rest is; for forks and snapshots.
    struct Contents {
        std::vector<int32_t> tokens;
        Logits logits;
        uint32_t high_water;
        uint32_t prefilled;
    };
    Contents contents() const;
    // The planes hold these rows now.
    void restore(Contents contents);
    // Both become what the other was. The two are at rest.
    void swap(Session &other);
    // Before the planes are overwritten from outside: nothing is retained.
    void forget();

    // At most one caller drives a session; a second one gets Error{busy}.
    class Use {
      public:
        explicit Use(Session &session);
        ~Use();
        Use(const Use &) = delete;
        Use &operator=(const Use &) = delete;

      private:
        Session &session_;
    };

  private:
    void retain();

    const SequenceId id_;
    std::unique_ptr<KvStore> kv_;
    mutable std::mutex mutex_;
    std::vector<int32_t> tokens_;
    Logits logits_;
    RewindLimit limit_;
    uint32_t prefilled_ = 0;          // leading rows that no decode took part in
    std::vector<int32_t> retained_;   // tokens whose rows are still in the planes of an empty session
    uint32_t retained_prefilled_ = 0; // of them
    std::atomic<bool> cancelled_{false};
    std::atomic<bool> in_use_{false};
};

} // namespace muser
