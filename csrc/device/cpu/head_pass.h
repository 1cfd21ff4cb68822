// Plans the head of a pass: logits of some rows, or of a few rows only the first maximum of their logits.
//
// For the maximum alone, tiles are read at half of their bytes where a bound (matmul/bounds.h) says that they hold no larger
// logit than one found already. What is found does not depend on the order, which is that of the vocabulary: tokens that
// are met often, and so are chosen often, come first in most.
#pragma once

#include <atomic>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/matmul.h"
#include "device/cpu/ops.h"
#include "device/cpu/pass.h"
#include "device/cpu/pass_state.h"

namespace muser::cpu {

class HeadPlanner {
  public:
    HeadPlanner(const OpKernels &ops, const MatmulKernels &kernels, PassState &state, Pass &pass)
        : ops_(ops), kernels_(kernels), state_(state), pass_(pass), found_(std::make_unique<Found[]>(pass.threads())) {}

    void head(const HeadSpec &spec, std::span<const int32_t> rows);
    static bool can_choose(const HeadSpec &spec);
    void choose(const HeadSpec &spec, std::span<const int32_t> rows); // up to kFewRows
    int32_t chosen(size_t i) const; // after the pass; -1: a logit is NaN, or all are -inf

  private:
    struct Best {
        float logit = -INFINITY;
        int32_t token = -1;
        bool has_nan = false;

        void offer(float other, int32_t its_token) {
            has_nan |= std::isnan(other);
            if (other > logit || (other == logit && its_token < token)) {
                logit = other;
                token = its_token;
            }
        }
    };
    struct alignas(128) Found { // by one thread
        Best of[kFewRows];
    };

    // Records norming and quantizing of the rows; bounds: for MatmulKernels::bounds. True: each thread does it for itself.
    bool record_input(const HeadSpec &spec, std::span<const int32_t> rows, bool bounds);
    ActivationRows input(bool own, int row, int thread) const;
    // first, last: tiles.
    void run_head(const HeadSpec &spec, const PackedMatrix &matrix, bool own, int n, int first, int last, int thread) const;
    void run_choice(const PackedMatrix &matrix, float logit_scale, bool own, int n, int first, int last, int thread);
    void look_at(const PackedMatrix &matrix, float logit_scale, const ActivationRows &row, int i, int tile, int thread);

    const OpKernels &ops_;
    const MatmulKernels &kernels_;
    PassState &state_;
    Pass &pass_;
    std::vector<int32_t> rows_;
    std::unique_ptr<Found[]> found_;     // [threads]
    std::atomic<float> reached_[kFewRows]; // the largest logit found by any thread
};

} // namespace muser::cpu
