// Every buffer of a pass, carved once from one zeroed allocation. Rows start on cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/cpu/attention.h"
#include "device/cpu/page_buffer.h"
#include "device/device.h"

namespace muser::cpu {

inline constexpr int kMaxRopes = 2; // rotary configurations of one model (Gemma 3 has two)

inline constexpr int kFewRows = 4;  // of a pass whose threads may keep rows of their own

// What one thread works with. For attention: a task's scratch, and two softmax states a query vector, the
// segment's and the merged one. In a pass of few rows: its own copies of some activations.
struct ThreadScratch {
    AttentionScratch attention;
    float *segment_out, *merged_out;                           // [kMaxTaskQueries][value width]
    float *segment_max, *segment_sum, *merged_max, *merged_sum; // [kMaxTaskQueries]
    float *acts[static_cast<size_t>(Act::count)];               // [kFewRows, stride]; null: always shared
    std::byte *quants;
};

class Workspace {
  public:
    Workspace() = default;
    Workspace(const WorkspaceSpec &spec, int threads);
    static uint64_t bytes(const WorkspaceSpec &spec, int threads);

    // Before a pass of so many rows: nothing is kept from one pass to the next.
    void prepare(size_t rows);

    const WorkspaceSpec &spec() const { return spec_; }
    uint32_t width(Act act) const { return spec_.widths[static_cast<size_t>(act)]; }
    size_t stride(Act act) const; // floats between rows
    float *row(Act act, int row) const { return acts_[static_cast<size_t>(act)] + row * stride(act); }

    std::byte *quants() const { return quants_; } // int8 rows of one input at a time
    size_t quants_stride() const { return quants_stride_; } // bytes that a row of any width has room in
    float *head_input(int row) const { return head_input_ + row * stride(Act::residual); }
    size_t logits_stride() const;
    float *logits(int row) const { return logits_ + row * logits_stride(); }
    float *taps(int tap) const;
    float *rope_cos(int rope, int row) const { return ropes_ + (size_t(rope) * 2 * spec_.max_rows + row) * rope_width_; }
    float *rope_sin(int rope, int row) const { return rope_cos(rope, spec_.max_rows + row); }
    uint32_t rope_width() const { return rope_width_; } // most pairs a rope may have
    const ThreadScratch &scratch(int thread) const { return scratch_[thread]; }

    float *partials() const { return partials_; } // softmax states of segments, when threads share a query
    size_t partial_floats() const { return partial_floats_; }

  private:
    class Carver;
    void carve(Carver &carver, int threads);

    WorkspaceSpec spec_{};
    PageBuffer memory_;
    bool on_large_pages_ = false;
    float *acts_[static_cast<size_t>(Act::count)] = {};
    std::byte *quants_ = nullptr;
    size_t quants_stride_ = 0;
    float *head_input_ = nullptr, *logits_ = nullptr, *taps_ = nullptr, *ropes_ = nullptr, *partials_ = nullptr;
    uint32_t rope_width_ = 0;
    size_t partial_floats_ = 0;
    std::vector<ThreadScratch> scratch_;
};

} // namespace muser::cpu
