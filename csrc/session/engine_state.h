// What an Engine owns while it is open, and the two ways a pass runs over it. Private to csrc/session.
#pragma once

#include <atomic>
#include <vector>

#include "model/graph.h"
#include "sched/chunk_rule.h"
#include "session/engine.h"

namespace muser {

struct Engine::State {
    State(const HParams &hparams, WeightTable table, std::unique_ptr<Device> device, const MemoryPlan &plan,
          const EngineOptions &options, std::shared_ptr<const gguf::Model> file);

    Session &session(int slot); // throws Error{parameter}
    void check_token(int32_t token) const;
    // Throws Error{context_full} when n more rows do not fit.
    void check_room(const Session &session, size_t n) const;

    // The next chunk of the tokens that are left, cut once it is this session's turn: how many may run depends on
    // who decodes then. Returns its rows; the last chunk computes the logits of its last row.
    size_t run_chunk(Session &session, std::span<const int32_t> left, const Wait &wait);
    // One pass over 1..kMaxGroup rows of different sessions, under one permit; installs every row.
    void run_group(std::span<const std::pair<Session *, int32_t>> rows, const Wait &wait);

    const HParams hparams; // a copy: a caller still inside may outlive the Engine
    WeightTable table; // its sources are dropped once loaded: they point into the file
    const MemoryPlan plan;
    const std::shared_ptr<const gguf::Model> mapping; // null when the device keeps nothing of the file
    std::unique_ptr<Device> device;
    std::unique_ptr<Weights> weights;
    std::vector<std::unique_ptr<Session>> sessions;
    AcceleratorScheduler scheduler;
    DecodeBatcher batcher;

    std::atomic<uint64_t> prefill_tokens{0}, decode_tokens{0}, prefill_ns{0}, decode_ns{0};

  private:
    ChunkRule chunk_rule; // asked and told under the permit

    // Runs the pass; whatever it throws leaves the device in an unknown state, so it latches.
    void forward_or_latch(std::span<const Row> rows, std::span<const int32_t> logit_rows);
    Logits copy_logits(size_t i) const;
    std::array<std::exception_ptr, kMaxGroup> run_batch(std::span<const DecodeBatcher::Row> rows);
};

} // namespace muser
