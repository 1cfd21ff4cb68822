// One list of sizes, for counting and for allocating.
#import "device/metal/workspace.h"

#include <algorithm>

#include "../../../metal/args.h"

namespace muser::metal {

namespace {

constexpr uint32_t kTile = 512; // values of a matvec's input that lie in lane order together

uint32_t padded(uint32_t width) { return (width + kTile - 1) / kTile * kTile; }

} // namespace

struct Workspace::Sizes {
    uint64_t acts[static_cast<size_t>(Act::count)];
    uint64_t glu_out, head_input, parts, part_sums, logits, taps, rows, tiles, picked, angles, chosen;
};

Workspace::Sizes Workspace::sizes(const WorkspaceSpec &spec) {
    const auto width = [&](Act act) { return uint64_t{spec.widths[static_cast<size_t>(act)]}; };
    const uint64_t rows = spec.max_rows, some = 16; // Metal has no empty buffers
    Sizes s{};
    for (size_t i = 0; i < static_cast<size_t>(Act::count); ++i)
        s.acts[i] = std::max(some, rows * padded(spec.widths[i]) * sizeof(float));
    s.glu_out = std::max(some, uint64_t{kMaxDecodeRows} * padded(spec.widths[size_t(Act::ffn_gate)]) * sizeof(float));
    s.head_input = std::max<uint64_t>(1, spec.max_logit_rows) * padded(spec.widths[size_t(Act::residual)]) * sizeof(float);
    // Softmax states: a row's whole, or the splits of a few rows. Heads are at least 8 wide.
    const uint64_t slots = std::max<uint64_t>(rows, kMaxDecodeRows * kMaxSplits);
    s.parts = slots * width(Act::query) * sizeof(float);
    s.part_sums = slots * width(Act::query) / 8 * 2 * sizeof(float);
    s.logits = std::max<uint64_t>(1, spec.max_logit_rows) * ((spec.vocab + 15) / 16 * 16) * sizeof(float);
    s.taps = std::max(some, uint64_t{spec.max_taps} * rows * width(Act::residual) * sizeof(float));
    s.rows = (rows + 1) * sizeof(RowInfo); // the last link of a chain chooses a token as well
    s.chosen = kMostLinks * sizeof(int32_t);
    s.tiles = kMaxTileLists * rows * sizeof(RowTile);
    s.picked = std::max<uint64_t>(1, spec.max_logit_rows) * sizeof(int32_t);
    s.angles = kMaxRopes * rows * std::max<uint64_t>(1, std::min<uint64_t>(width(Act::key), 512) / 2) * 2 * sizeof(float);
    return s;
}

uint64_t Workspace::bytes(const WorkspaceSpec &spec) {
    const Sizes s = sizes(spec);
    uint64_t sum = s.glu_out + s.head_input + s.parts + s.part_sums + s.logits + s.taps + s.rows + s.tiles + s.picked + s.angles + s.chosen;
    for (uint64_t act : s.acts)
        sum += act;
    return sum;
}

Workspace::Workspace(const Gpu &gpu, const WorkspaceSpec &spec) : spec_(spec) {
    const Sizes s = sizes(spec);
    for (size_t i = 0; i < acts_.size(); ++i)
        acts_[i] = gpu.private_memory(s.acts[i]);
    glu_out_ = gpu.private_memory(s.glu_out);
    head_input_ = gpu.private_memory(s.head_input);
    parts_ = gpu.private_memory(s.parts);
    part_sums_ = gpu.private_memory(s.part_sums);
    logits_ = gpu.shared(s.logits);
    taps_ = gpu.shared(s.taps);
    rows_ = gpu.shared(s.rows);
    tiles_ = gpu.shared(s.tiles);
    picked_ = gpu.shared(s.picked);
    angles_ = gpu.shared(s.angles);
    chosen_ = gpu.shared(s.chosen);
}

uint32_t Workspace::stride(Act act) const { return padded(width(act)); }
uint32_t Workspace::logits_stride() const { return (spec_.vocab + 15) / 16 * 16; }
uint32_t Workspace::rope_pairs() const { return std::min<uint32_t>(width(Act::key), 512) / 2; }
Place Workspace::logits(size_t link) const {
    return {logits_, link % kLinksInFlight * logits_stride() * sizeof(float)};
}
Place Workspace::rows() const { return {rows_, link_ * sizeof(RowInfo)}; }
Place Workspace::next_row() const { return {rows_, (link_ + 1) * sizeof(RowInfo)}; }
Place Workspace::spare_rows(uint32_t n_rows) const { return {rows_, n_rows * sizeof(RowInfo)}; }
Place Workspace::taps(uint32_t tap) const {
    return {taps_, NSUInteger{tap} * spec_.max_rows * width(Act::residual) * sizeof(float)};
}
Place Workspace::tiles(uint32_t list) const { return {tiles_, NSUInteger{list} * spec_.max_rows * sizeof(RowTile)}; }
Place Workspace::angles(uint32_t rope) const {
    return {angles_, NSUInteger{rope} * spec_.max_rows * rope_pairs() * 2 * sizeof(float)};
}

} // namespace muser::metal
