// One pass at a time: records its ops as steps (pass.h) over the buffers of a workspace of its own, and runs them.
// Matrix products are planned in product_pass.cpp, attention in attention_pass.cpp, the head in head_pass.cpp, row-wise ops here.
#pragma once

#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "device/cpu/attention_pass.h"
#include "device/cpu/head_pass.h"
#include "device/cpu/matmul.h"
#include "device/cpu/ops.h"
#include "device/cpu/pass.h"
#include "device/cpu/pass_state.h"
#include "device/cpu/product_pass.h"
#include "device/device.h"

namespace muser::cpu {

class Recorder {
  public:
    Recorder(ThreadPool &pool, const OpKernels &ops, const MatmulKernels &matmul)
        : pass_(pool), ops_(ops), products_(ops, matmul, state_, pass_), attention_(ops, state_, pass_),
          head_(ops, matmul, state_, pass_) {}

    void set_workspace(const WorkspaceSpec &spec);

    // The ops of the device interface.
    void begin(std::span<const Row> rows);
    bool can_narrow() const { return !state_.few(); }
    void narrow(int first_row);
    void embed(const Weight &table, EmbedOp op, float x);
    void norm(const Weight &weight, float eps);
    void matmul(Act in, std::span<const Projection> projections) { products_.record(in, projections); }
    void qk_norm_rope(const QkSpec &spec);
    void kv_store(const AttentionSpec &spec);
    void attention(const AttentionSpec &spec);
    void attention_gate();
    void glu(Activation activation);
    void residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps);
    void tap();
    void head(const HeadSpec &spec, std::span<const int32_t> rows);
    void choose(const HeadSpec &spec, std::span<const int32_t> rows);

    void run(Deadline deadline, const Pauses &pauses) { pass_.run(deadline, pauses); }

    std::span<const float> logits(size_t i) const;
    std::span<const float> taps(size_t i) const;
    int32_t chosen(size_t i) const { return head_.chosen(i); }

  private:
    // f(row, thread), each row once. For rows that all threads share.
    template <class F> void each_row(const F &f) { pass_.add_rows(state_.wanted_rows(), over_rows(f)); }
    // The same for ops on the rows that threads keep for themselves when there are few (pass_state.h).
    template <class F> void each_own_row(const F &f) {
        if (state_.few())
            pass_.add_everywhere(state_.n_rows(), over_rows(f));
        else
            each_row(f);
    }
    template <class F> auto over_rows(const F &f) const {
        return [f, base = state_.first_row()](int first, int last, int thread) {
            for (int row = base + first; row < base + last; ++row)
                f(row, thread);
        };
    }
    float *act(Act a, int row, int thread) const { return state_.act(a, row, thread); }
    size_t width(Act a) const { return state_.width(a); }
    int rope_table(const RopeSpec &rope);

    Pass pass_;
    const OpKernels &ops_;
    PassState state_;
    ProductPlanner products_;
    AttentionPlanner attention_;
    HeadPlanner head_;
    std::vector<const RopeSpec *> ropes_; // of the pass being recorded
    size_t n_logits_ = 0, n_taps_ = 0;
};

} // namespace muser::cpu
