// What an Engine owns while it is open, and the two ways a pass runs over it. Private to csrc/session.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <functional>
#include <vector>

#include "model/graph.h"
#include "sched/chunk_rule.h"
#include "sched/pause_rule.h"
#include "session/decoder_pauses.h"
#include "session/engine.h"
#include "session/stopwatch.h"

namespace muser {

int32_t first_maximum(std::span<const float> logits); // as the sampler with temperature 0; -1: nothing can be chosen

struct Engine::State {
    State(const HParams &hparams, WeightTable table, std::unique_ptr<Device> device, const MemoryPlan &plan,
          const EngineOptions &options, std::shared_ptr<const gguf::Model> file);

    Session &session(int slot); // throws Error{parameter}
    void check_token(int32_t token) const;
    // Throws Error{context_full} when n more rows do not fit.
    void check_room(const Session &session, size_t n) const;

    // What a chunk brings back beside its keys and values: the logits of the prompt's last row, those of every row
    // (kMaxLogitRows a chunk), or every row's residual after the last layer.
    enum class Harvest { last_logits, every_logits, residuals };
    struct Chunk {
        std::span<const int32_t> tokens;
        std::vector<Logits> logits;    // of the last rows, as many as were asked for
        std::vector<float> residuals; // [rows, d_model]
    };
    // Appends tokens chunk by chunk; `each` sees every chunk after it was installed and outside the accelerator.
    // Returns how many were there already (reuse_prefix).
    size_t prefill(Session &session, std::span<const int32_t> tokens, const Wait &wait, bool reuse, Harvest harvest = Harvest::last_logits,
                   const std::function<void(const Chunk &)> &each = {});
    // Gives an empty session the rows that are there already for the leading tokens; returns how many. What the slot
    // retained and the prompt does not continue goes to the prefix store.
    size_t reuse_prefix(Session &session, std::span<const int32_t> tokens);
    void copy_rows(Session &from, Session &to);
    // Engine::shift for a session that the caller uses.
    void shift(Session &session, std::span<const int32_t> tokens, const Wait &wait);
    // A row of a decode group.
    struct Member {
        Session *session;
        int32_t token;
        bool choice = false; // nobody wants the logits: their first maximum goes to `choices`, and the session has none
    };
    // One pass over 1..kMaxGroup rows of different sessions, under one permit; installs every row.
    void run_group(std::span<const Member> rows, const Wait &wait);

    // Both keep greedy()'s promise; they differ in who waits for whom.
    GreedyRun greedy_by_steps(Session &session, int32_t token, int n, std::span<const int32_t> stop, const Wait &wait,
                              bool keeps_logits);
    GreedyRun greedy_by_chain(Session &session, int32_t token, int n, std::span<const int32_t> stop, const Wait &wait);

    const HParams hparams; // a copy: a caller still inside may outlive the Engine
    WeightTable table; // its sources are dropped once loaded: they point into the file
    const MemoryPlan plan;
    const std::shared_ptr<const gguf::Model> mapping; // null when the device keeps nothing of the file
    std::unique_ptr<Device> device;
    std::unique_ptr<Weights> weights;
    std::vector<float> output_norm; // the head's norm once more, for embeddings: [d_model]
    const std::vector<PlaneSpec> planes; // of every session
    PrefixStore prefixes;
    std::vector<std::unique_ptr<Session>> sessions;
    std::unique_ptr<Session> staging; // null without the option; no caller's slot
    std::timed_mutex staging_mutex;   // who builds in it
    AcceleratorScheduler scheduler;
    DecodeBatcher batcher;
    std::array<int32_t, kMaxGroup> choices{}; // by session: of its last row that was a choice; -1: there is none

    std::atomic<uint64_t> prefill_tokens{0}, decode_tokens{0}, prefill_ns{0}, decode_ns{0}, reused_tokens{0};

  private:
    const std::chrono::milliseconds pass_limit;
    const bool patient;    // a prefill's wait for its turn is bounded
    const bool can_pause;  // the device
    bool can_choose = false; // the device, from this model's logits
    ChunkRule chunk_rule; // asked and told under the permit
    PauseRule pause_rule; // likewise

    // The next chunk of the tokens that are left, cut once it is this session's turn: how many may run depends on
    // who decodes then.
    Chunk run_chunk(Session &session, std::span<const int32_t> left, const Wait &wait, Harvest harvest);
    // Runs the pass; whatever it throws leaves the device in an unknown state, so it latches.
    void forward_or_latch(const ForwardRequest &request);
    // A prompt's, with pauses; unless it is given up during one, which leaves the device as it was.
    void forward_or_latch(ForwardRequest request, const DecoderPauses &pauses);
    template <class F> auto or_latch(const F &work);
    Logits copy_logits(size_t i) const;
    std::array<std::exception_ptr, kMaxGroup> run_batch(std::span<const DecodeBatcher::Row> rows);
};

template <class F> auto Engine::State::or_latch(const F &work) {
    std::string cause;
    try {
        return work();
    } catch (const std::exception &error) {
        cause = error.what();
    } catch (...) {
        cause = "an unknown failure";
    }
    scheduler.latch(cause);
    throw Error(ErrorCode::device, "the device failed a pass: " + cause);
}

} // namespace muser
