// One loaded model: device, weights, slots, scheduler, batcher. What the bindings expose as muser.Model's core.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/wait.h"
#include "device/device.h"
#include "gguf/file.h"
#include "sched/batcher.h"
#include "sched/scheduler.h"
#include "session/memory_plan.h"

namespace muser {

class Session;

struct EngineOptions {
    int slots = 4;                        // 1..4
    std::optional<uint32_t> context;      // rows a slot can hold; empty: the most that fits
    KvType kv_type = KvType::f16;
    std::optional<int> prefill_patience = 16;
    uint64_t memory_limit = 0;            // bytes; 0: what the machine has available
};

struct EngineStats {
    SchedulerStats scheduler;
    BatcherStats batcher;
    uint64_t prefill_tokens = 0;
    uint64_t decode_tokens = 0;
    uint64_t prefill_ns = 0; // time owning the accelerator
    uint64_t decode_ns = 0;
};

class Engine {
  public:
    Engine(std::shared_ptr<const gguf::Model> file, std::unique_ptr<Device> device, const EngineOptions &options);
    ~Engine();

    const MemoryPlan &memory_plan() const;
    uint32_t context() const;
    uint32_t vocab() const;
    int slots() const;
    Session &session(int slot);

    // Appends tokens to the session. All or nothing is not promised across chunks: a chunk that succeeded
    // stays (position says how far); a chunk that failed leaves no trace. After success logits are those of the last token.
    void prefill(Session &session, std::span<const int32_t> tokens, const Wait &wait);
    // One token through the rendezvous: packed with whoever is ready. Logits are in session.logits().
    void decode(Session &session, int32_t token, const Wait &wait);
    // Explicit packing: 1..4 rows of different sessions of this engine in one pass, all or none.
    void decode_group(std::span<const std::pair<Session *, int32_t>> rows, const Wait &wait);

    EngineStats stats() const;
    std::optional<std::string> unhealthy_cause() const;
    void close(); // waiters wake with Error{closed}; later calls throw it; memory goes when the last call has left

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace muser
