// One loaded model: device, weights, slots, scheduler, batcher. What the bindings expose as _muser.Engine.
// Thread-safe. Every call holds the state alive while it runs, so close() never pulls it from under a caller.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/wait.h"
#include "device/device.h"
#include "gguf/file.h"
#include "sample/logprobs.h"
#include "sched/batcher.h"
#include "sched/scheduler.h"
#include "session/hidden_pool.h"
#include "session/memory_plan.h"
#include "session/session.h"

namespace muser {

struct EngineOptions {
    int slots = 4;                   // 1..kMaxGroup
    std::optional<uint32_t> context; // rows a slot can hold; empty: the most that fits
    KvType kv_type = KvType::f16;
    std::optional<int> prefill_patience = 16;
    bool staging = false;      // one more session, in which shift() builds what replaces another
    uint64_t memory_limit = 0; // bytes; 0: what the machine has available
    std::optional<uint64_t> prefix_cache; // bytes of evicted prefixes; 0: no reuse; empty: a quarter of what is left
    // A pass that takes longer is a hang: a 512-row chunk of a 30B model takes about a minute on two cores.
    std::chrono::milliseconds pass_limit = std::chrono::minutes(10);
    std::optional<std::chrono::milliseconds> longest_prefill; // instead of what the device asks for
    std::optional<std::chrono::milliseconds> pause_after;     // a prefill lets decoders in; instead of pause_rule.h
};

// What greedy() chose; the last token is not in the session yet. Empty: the session's logits cannot be chosen from (a
// NaN, or nothing but -inf).
using GreedyRun = std::vector<int32_t>;

struct EngineStats {
    SchedulerStats scheduler;
    BatcherStats batcher;
    uint64_t prefill_tokens = 0;
    uint64_t decode_tokens = 0;
    uint64_t prefill_ns = 0; // time owning the accelerator
    uint64_t decode_ns = 0;
    uint64_t reused_tokens = 0; // rows of prompts that were there already
    PrefixStore::Stats prefixes;
};

class Engine {
  public:
    Engine(const std::shared_ptr<const gguf::Model> &file, std::unique_ptr<Device> device, const EngineOptions &options);
    ~Engine();
    // What the constructor would take of memory, without taking it. The same errors.
    static MemoryPlan plan(const gguf::Model &file, const Device &device, const EngineOptions &options);

    const std::string &path() const { return path_; } // of the model file, for messages
    const HParams &hparams() const { return hparams_; }
    const MemoryPlan &memory_plan() const { return plan_; }
    const DeviceInfo &device_info() const { return info_; }
    int slots() const { return plan_.slots; }

    // Appends tokens to the session, chunk by chunk. A chunk that succeeded stays (position says how far); a
    // chunk that failed leaves no trace. On success the session's logits are those of the last token.
    // reuse: an empty session first takes over rows that an earlier one computed for the same leading tokens, of
    // this slot or from the prefix store; the same bits, since whatever a row depends on comes before it. Returns
    // how many.
    size_t prefill(int slot, std::span<const int32_t> tokens, const Wait &wait, bool reuse = false);
    // The same in chunks of kMaxLogitRows rows: the log-probability of each token but the first, given those before.
    std::vector<RowLogprobs> prefill_scored(int slot, std::span<const int32_t> tokens, int top, const Wait &wait);
    // The same, and the pooled hidden states of these rows after the final norm: [d_model].
    std::vector<float> embed(int slot, std::span<const int32_t> tokens, Pooling pooling, const Wait &wait);
    // Session `to` becomes an equal of `from`: tokens, keys, values, logits. Both go on by themselves.
    void fork(int from, int to, const Wait &wait);
    // One token through the rendezvous: packed with whoever is ready.
    void decode(int slot, int32_t token, const Wait &wait);
    // `token`, then up to n - 1 more, each the first maximum of the logits before it, as decode() and an arg-max would.
    // Ends early after a token of `stop`, when the session is cancelled or the wait's deadline passes and there are
    // tokens to return, and when somebody else wants the device. n is 1..kMostLinks. Without company, a device with
    // chains runs it without a round trip a token; else it is n calls of decode().
    // Without keeps_logits the session may have none afterwards, which takes less work of a device that can choose without
    // them.
    GreedyRun greedy(int slot, int32_t token, int n, std::span<const int32_t> stop, const Wait &wait, bool keeps_logits = true);
    // Explicit packing: 1 to kMaxGroup rows of different slots in one pass, all or none.
    void decode_group(std::span<const std::pair<int, int32_t>> rows, const Wait &wait);
    void leave_decode(int slot); // the rendezvous no longer expects this slot

    void rewind(int slot, int64_t to);
    void reset(int slot);
    // Rows that prefill(..., reuse) of an empty session in this slot would find in the slot itself.
    size_t reusable(int slot, std::span<const int32_t> tokens);
    size_t retained(int slot); // rows in the slot, of its session or of an earlier one
    // The session becomes one of these tokens, with the logits of the last: built in the staging session chunk by chunk,
    // while others go on, and swapped in at the end. Whatever interrupts it, the session is what it was. One shift at
    // a time: a second one waits. Throws Error{parameter} without the option `staging`, or for no tokens.
    void shift(int slot, std::span<const int32_t> tokens, const Wait &wait);
    std::vector<std::byte> snapshot(int slot);                    // snapshot.h
    void restore(int slot, std::span<const std::byte> snapshot); // throws before it changes anything
    void cancel(int slot); // the caller inside, or the next one, gets Error{cancelled}
    void clear_cancel(int slot);
    std::vector<int32_t> tokens(int slot);
    uint32_t position(int slot);
    Logits logits(int slot);

    EngineStats stats() const;
    std::optional<std::string> unhealthy_cause() const;
    // Waiters wake with Error{closed} and later calls throw it. Returns true once the last caller inside has
    // left and all memory is freed, false when one is still inside after `grace` (it frees it on leaving).
    bool close(std::chrono::milliseconds grace);

  private:
    struct State;
    std::shared_ptr<State> enter() const; // throws Error{closed}

    std::string path_;
    HParams hparams_;
    MemoryPlan plan_;
    DeviceInfo info_;
    mutable std::mutex mutex_; // guards state_
    std::shared_ptr<State> state_;
};

} // namespace muser
