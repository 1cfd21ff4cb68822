// Sizes and places the buffers: one routine runs twice, first counting, then placing.
#include "device/cpu/workspace.h"

#include <algorithm>

#include "device/cpu/matmul.h"

namespace muser::cpu {

namespace {

// Segments whose partial softmax can wait to be merged, in (row, segment) pairs of the usual head size.
// One row at 65,536 positions, or four at 16,384, need no second round.
constexpr size_t kPartialSlots = 256;

constexpr size_t kPromptRows = 64; // the shortest whole chunk of a prompt

size_t padded(size_t floats) { return (floats + 15) / 16 * 16; }

} // namespace

class Workspace::Carver {
  public:
    explicit Carver(std::byte *base) : base_(base) {}
    std::byte *bytes(size_t n) {
        std::byte *at = base_ ? base_ + used_ : nullptr;
        used_ += (n + 63) / 64 * 64;
        return at;
    }
    float *floats(size_t n) { return reinterpret_cast<float *>(bytes(n * sizeof(float))); }
    size_t used() const { return used_; }

  private:
    std::byte *base_;
    size_t used_ = 0;
};

// Rows at a large power-of-two distance would share cache sets: a tile of a product has lines of all of them.
size_t Workspace::stride(Act act) const {
    const size_t floats = padded(width(act));
    return floats % 256 == 0 ? floats + 16 : floats;
}
size_t Workspace::logits_stride() const { return padded(spec_.vocab); }
float *Workspace::taps(int tap) const { return taps_ + size_t(tap) * spec_.max_rows * width(Act::residual); }

void Workspace::carve(Carver &carver, int threads) {
    const size_t rows = spec_.max_rows, logit_rows = spec_.max_logit_rows;
    for (size_t i = 0; i < static_cast<size_t>(Act::count); ++i)
        acts_[i] = carver.floats(rows * stride(static_cast<Act>(i)));

    size_t record = 0;
    for (Act input : {Act::residual, Act::normed, Act::attention, Act::ffn_gate})
        record = std::max(record, quantized_row_bytes(width(input)));
    quants_stride_ = record;
    quants_ = carver.bytes(std::max(rows, logit_rows) * record);

    head_input_ = carver.floats(logit_rows * stride(Act::residual));
    logits_ = carver.floats(logit_rows * logits_stride());
    taps_ = carver.floats(size_t{spec_.max_taps} * rows * width(Act::residual));

    // The widths bound a head: all key heads together are `key` wide.
    const size_t head_dim = std::min<size_t>(kMaxHeadDim, padded(width(Act::key)));
    rope_width_ = static_cast<uint32_t>(padded(head_dim / 2));
    ropes_ = carver.floats(size_t{kMaxRopes} * 2 * rows * rope_width_);

    // A state is its weighted values, its maximum and its sum; heads are at least 8 wide.
    partial_floats_ = kPartialSlots * (stride(Act::query) + stride(Act::query) / 4);
    partials_ = carver.floats(partial_floats_);

    scratch_.assign(static_cast<size_t>(threads), ThreadScratch{});
    for (ThreadScratch &s : scratch_) {
        s.attention.scores = carver.floats(size_t{kMaxTaskQueries} * kSegmentKeys);
        s.attention.keys = carver.floats(std::max(kGroupFloats, kMinGroupTiles * head_dim * kTileKeys));
        s.attention.values = carver.floats(std::max(kValueFloats, kValueChunk * head_dim));
        for (float **out : {&s.segment_out, &s.merged_out})
            *out = carver.floats(kMaxTaskQueries * head_dim);
        for (float **scalar : {&s.segment_max, &s.segment_sum, &s.merged_max, &s.merged_sum})
            *scalar = carver.floats(kMaxTaskQueries);
        for (Act own : {Act::residual, Act::normed, Act::attention})
            s.acts[static_cast<size_t>(own)] = carver.floats(kFewRows * stride(own));
        s.quants = carver.bytes(kFewRows * record);
    }
}

uint64_t Workspace::bytes(const WorkspaceSpec &spec, int threads) {
    Workspace counted;
    counted.spec_ = spec;
    Carver carver(nullptr);
    counted.carve(carver, threads);
    return round_to_pages(carver.used());
}

Workspace::Workspace(const WorkspaceSpec &spec, int threads) : spec_(spec), memory_(bytes(spec, threads)) {
    Carver carver(memory_.data());
    carve(carver, threads);
}

// Prompts want large pages: the rows that a tile's outputs go to lie in a page each where pages are small. But to fill
// them with zeros takes longer than a pass of few rows, which touches a little of every page, and is what a model's
// first token waits for.
void Workspace::prepare(size_t rows) {
    if (on_large_pages_ || rows < kPromptRows)
        return;
    memory_.clear_to_large_pages();
    on_large_pages_ = true;
}

} // namespace muser::cpu
