#include "device/cpu/head_pass.h"

#include <algorithm>

#include "device/cpu/matmul/bounds.h"
#include "device/cpu/require.h"
#include "device/cpu/weight.h"

namespace muser::cpu {

namespace {

constexpr size_t kBoundBytes = 256 * 1024; // of tiles whose bounds are found in one go: they are still near if more is wanted
constexpr int kMostLanes = 32;
static_assert(kFewRows == kRowsBeside);

void raise(std::atomic<float> &reached, float logit) {
    float before = reached.load(std::memory_order_relaxed);
    while (logit > before && !reached.compare_exchange_weak(before, logit, std::memory_order_relaxed)) {
    }
}

} // namespace

ActivationRows HeadPlanner::input(bool own, int row, int thread) const {
    const Workspace &w = state_.workspace;
    const size_t record = quantized_row_bytes(state_.width(Act::residual));
    return {own ? state_.act(Act::normed, row, thread) : w.head_input(row), w.stride(Act::residual),
            (own ? w.scratch(thread).quants : w.quants()) + static_cast<size_t>(row) * record};
}

bool HeadPlanner::record_input(const HeadSpec &spec, std::span<const int32_t> rows, bool bounds) {
    const PackedMatrix &matrix = cpu_weight(*spec.weight).matrix();
    require(matrix.cols == state_.width(Act::residual) && matrix.rows == state_.workspace.spec().vocab, "head shape");
    rows_.assign(rows.begin(), rows.end());

    const int n = static_cast<int>(rows.size());
    const bool own = state_.few() && n <= kFewRows, quantized = needs_quantized_rows(matrix.type);
    const size_t record = quantized_row_bytes(matrix.cols);
    const float *norm = cpu_weight(*spec.norm).vector();
    const float eps = spec.norm_eps;
    const auto task = [this, own, norm, eps, quantized, bounds, record](int first, int last, int thread) {
        const Workspace &w = state_.workspace;
        std::byte *quants = own ? w.scratch(thread).quants : w.quants();
        for (int i = first; i < last; ++i) {
            float *to = own ? state_.act(Act::normed, i, thread) : w.head_input(i);
            ops_.rms_norm(state_.act(Act::residual, rows_[i], thread), norm, eps, to, w.width(Act::residual));
            if (quantized)
                kernels_.quantize_row(to, w.width(Act::residual), quants + size_t(i) * record);
            if (bounds)
                bound_row(quants + size_t(i) * record, w.width(Act::residual));
        }
    };
    if (own)
        pass_.add_everywhere(n, task);
    else
        pass_.add(n, 1, task);
    return own;
}

void HeadPlanner::head(const HeadSpec &spec, std::span<const int32_t> rows) {
    const PackedMatrix &matrix = cpu_weight(*spec.weight).matrix();
    const bool own = record_input(spec, rows, false);
    const int n = static_cast<int>(rows.size()), tiles = static_cast<int>(matrix.tiles());
    pass_.add_shrinking(tiles, pass_.tile_grain(matrix.tiles()), [this, spec, &matrix, own, n](int first, int last, int thread) {
        run_head(spec, matrix, own, n, first, last, thread);
    });
}

void HeadPlanner::run_head(const HeadSpec &spec, const PackedMatrix &matrix, bool own, int n, int first, int last,
                           int thread) const {
    const Workspace &w = state_.workspace;
    kernels_.matmul(matrix, static_cast<uint64_t>(first), static_cast<uint64_t>(last), input(own, 0, thread), n, w.logits(0),
                    w.logits_stride(), spec.bias ? cpu_weight(*spec.bias).vector() : nullptr);
    const size_t lanes = static_cast<size_t>(matrix.lanes);
    const size_t from = first * lanes, to = std::min<size_t>(last * lanes, matrix.rows);
    for (int i = 0; i < n; ++i) {
        if (spec.logit_scale != 1.0f)
            ops_.scale(w.logits(i) + from, spec.logit_scale, to - from);
        if (spec.softcap != 0.0f)
            ops_.softcap(w.logits(i) + from, spec.softcap, to - from);
    }
}

// The order of products must be that of logits, ties included. Rounded multiplication by a positive number keeps it; a
// rounded tanh need not.
bool HeadPlanner::can_choose(const HeadSpec &spec) {
    return cpu_weight(*spec.weight).has_bounds() && !spec.bias && spec.softcap == 0.0f && spec.logit_scale > 0.0f &&
           std::isfinite(spec.logit_scale);
}

void HeadPlanner::choose(const HeadSpec &spec, std::span<const int32_t> rows) {
    require(rows.size() <= kFewRows && can_choose(spec), "choose() of a head that it can choose from");
    const PackedMatrix &matrix = cpu_weight(*spec.weight).matrix();
    const bool own = record_input(spec, rows, true);
    const int n = static_cast<int>(rows.size()), tiles = static_cast<int>(matrix.tiles());
    std::fill_n(found_.get(), pass_.threads(), Found());
    for (std::atomic<float> &reached : reached_)
        reached = -INFINITY;
    const float scale = spec.logit_scale;
    pass_.add_shrinking(tiles, pass_.tile_grain(matrix.tiles()), [this, scale, &matrix, own, n](int first, int last, int thread) {
        run_choice(matrix, scale, own, n, first, last, thread);
    });
}

void HeadPlanner::run_choice(const PackedMatrix &matrix, float logit_scale, bool own, int n, int first, int last, int thread) {
    const Workspace &w = state_.workspace; // bounds lie where logits would: a number a tile
    const int step = std::max(1, static_cast<int>(kBoundBytes / matrix.tile_bytes));
    for (int from = first; from < last; from += step) {
        const int to = std::min(from + step, last);
        kernels_.bounds(matrix, static_cast<uint64_t>(from), static_cast<uint64_t>(to), input(own, 0, thread), n, w.logits(0),
                        w.logits_stride());
        for (int i = 0; i < n; ++i) {
            const ActivationRows row = input(own, i, thread);
            for (int tile = from; tile < to; ++tile) // a bound that is not known is +inf
                if (!(w.logits(i)[tile] * logit_scale < reached_[i].load(std::memory_order_relaxed)))
                    look_at(matrix, logit_scale, row, i, tile, thread);
        }
    }
}

void HeadPlanner::look_at(const PackedMatrix &matrix, float logit_scale, const ActivationRows &row, int i, int tile, int thread) {
    alignas(64) float logits[kMostLanes];
    const PackedMatrix part = one_tile(matrix, static_cast<uint64_t>(tile));
    const size_t first = static_cast<size_t>(tile) * static_cast<size_t>(matrix.lanes), n = part.rows;
    kernels_.matmul(part, 0, 1, row, 1, logits, 0, nullptr);
    Best &best = found_[static_cast<size_t>(thread)].of[i];
    for (size_t lane = 0; lane < n; ++lane)
        best.offer(logit_scale == 1.0f ? logits[lane] : logits[lane] * logit_scale, static_cast<int32_t>(first + lane));
    raise(reached_[i], best.logit);
}

int32_t HeadPlanner::chosen(size_t i) const {
    require(i < rows_.size(), "chosen() of a row that choose() was not given");
    Best best;
    for (int thread = 0; thread < pass_.threads(); ++thread) {
        const Best &its = found_[static_cast<size_t>(thread)].of[i];
        best.has_nan |= its.has_nan;
        if (its.token >= 0)
            best.offer(its.logit, its.token);
    }
    return best.has_nan ? -1 : best.token;
}

} // namespace muser::cpu
