// Records and runs the steps of matrix products.
#include "device/cpu/product_pass.h"

#include <algorithm>
#include <climits>

#include "device/cpu/require.h"
#include "device/cpu/weight.h"

namespace muser::cpu {

namespace {

constexpr int kGluTiles = 8; // of both products at once: what they write is still near when the GLU reads it

} // namespace

void ProductPlanner::begin() {
    products_.clear();
    groups_.clear();
    quantized_ = Act::count;
}

void ProductPlanner::wrote(Act act) {
    if (quantized_ == act)
        quantized_ = Act::count;
}

// True where every thread has int8 rows of its own.
bool ProductPlanner::quantize(Act in) {
    if (quantized_ == in)
        return own_quants_;
    const bool own = state_.is_own(in) || (state_.few() && state_.is_small(in));
    const size_t record = quantized_row_bytes(state_.width(in));
    const int base = state_.first_row();
    const auto task = [this, in, own, record, base, by_rows = state_.by_rows()](int first, int last, int thread) {
        const int origin = by_rows ? base + first : base; // the first row of the product that reads them
        std::byte *to = quants(own, origin, thread) - size_t(origin) * record;
        for (int row = base + first; row < base + last; ++row)
            kernels_.quantize_row(state_.act(in, row, thread), state_.width(in), to + size_t(row) * record);
    };
    if (own) {
        pass_.add_everywhere(state_.n_rows(), task);
        state_.reads_everywhere(in);
    } else {
        pass_.add_rows(state_.wanted_rows(), task);
    }
    quantized_ = in;
    own_quants_ = own;
    return own;
}

void ProductPlanner::record(Act in, std::span<const Projection> projections) {
    Group group{in,    {state_.first_row(), state_.wanted_rows()}, products_.size(), projections.size(),
                false, nullptr,                                    0};
    uint64_t tiles = 0;
    bool quantized = false;
    for (const Projection &p : projections) {
        const PackedMatrix &matrix = cpu_weight(*p.weight).matrix();
        require(matrix.cols == state_.width(in), "matmul input width");
        require(matrix.rows == state_.width(p.out), "matmul output width");
        products_.push_back({&matrix, p.bias ? cpu_weight(*p.bias).vector() : nullptr, p.out});
        tiles += matrix.tiles();
        quantized |= needs_quantized_rows(matrix.type);
    }
    if (quantized)
        group.own_quants = quantize(in);
    for (const Projection &p : projections) {
        wrote(p.out);
        if (state_.is_read_everywhere(p.out))
            pass_.flush_everywhere();
    }
    state_.all_has_read();
    const size_t index = groups_.size();
    if (state_.by_rows())
        pass_.add_rows(state_.wanted_rows(), [this, index](int first, int last, int thread) {
            const Group &g = groups_[index];
            run_rows(g, {g.rows.first + first, last - first}, thread);
        });
    else
        pass_.add_shrinking(static_cast<int>(tiles), grain(tiles), [this, index](int first, int last, int thread) {
            const Group &g = groups_[index];
            g.glu ? run_glu(g, g.rows, first, last, thread) : run(g, g.rows, first, last, thread);
        });
    group.end = pass_.n_tasks();
    groups_.push_back(group);
}

bool ProductPlanner::join_glu(Activation activation) {
    if (groups_.empty() || groups_.back().end != pass_.n_tasks() || groups_.back().n != 2)
        return false; // something came in between
    Group &group = groups_.back();
    if (products_[group.first].out != Act::ffn_gate || products_[group.first + 1].out != Act::ffn_up)
        return false;
    group.glu = activation == Activation::silu ? ops_.silu_glu : ops_.gelu_tanh_glu;
    const uint64_t tiles = products_[group.first].matrix->tiles();
    if (!state_.by_rows())
        pass_.resplit_last(static_cast<int>(tiles), grain(tiles));
    return true;
}

void ProductPlanner::multiply(const Group &group, const Product &product, RowRange rows, int first, int last,
                              int thread) const {
    const Workspace &w = state_.workspace;
    const ActivationRows input{state_.act(group.in, rows.first, thread), w.stride(group.in),
                               quants(group.own_quants, rows.first, thread)};
    kernels_.matmul(*product.matrix, static_cast<uint64_t>(first), static_cast<uint64_t>(last), input, rows.count,
                    w.row(product.out, rows.first), w.stride(product.out), product.bias);
}

// Tiles of all products of the group are numbered through.
void ProductPlanner::run(const Group &group, RowRange rows, int first, int last, int thread) const {
    for (size_t i = group.first; i < group.first + group.n && last > 0; ++i) {
        const int tiles = static_cast<int>(products_[i].matrix->tiles());
        if (first < tiles)
            multiply(group, products_[i], rows, std::max(first, 0), std::min(last, tiles), thread);
        first -= tiles;
        last -= tiles;
    }
}

void ProductPlanner::run_glu(const Group &group, RowRange rows, int first, int last, int thread) const {
    const Product &gate = products_[group.first], &up = products_[group.first + 1];
    multiply(group, gate, rows, first, last, thread);
    multiply(group, up, rows, first, last, thread);
    const size_t lanes = static_cast<size_t>(gate.matrix->lanes);
    const size_t from = first * lanes, to = std::min<size_t>(last * lanes, gate.matrix->rows);
    for (int row = rows.first; row < rows.first + rows.count; ++row)
        group.glu(state_.workspace.row(Act::ffn_gate, row) + from, state_.workspace.row(Act::ffn_up, row) + from, to - from);
}

void ProductPlanner::run_rows(const Group &group, RowRange rows, int thread) const {
    if (!group.glu)
        return run(group, rows, 0, INT_MAX, thread);
    const int tiles = static_cast<int>(products_[group.first].matrix->tiles());
    for (int first = 0; first < tiles; first += kGluTiles)
        run_glu(group, rows, first, std::min(first + kGluTiles, tiles), thread);
}

void ProductPlanner::head(const HeadSpec &spec, std::span<const int32_t> rows) {
    const PackedMatrix &matrix = cpu_weight(*spec.weight).matrix();
    require(matrix.cols == state_.width(Act::residual) && matrix.rows == state_.workspace.spec().vocab, "head shape");
    head_rows_.assign(rows.begin(), rows.end());
    quantized_ = Act::count; // the head's own input takes the buffer

    const int n = static_cast<int>(rows.size());
    const bool own = state_.few() && n <= kFewRows, quantized = needs_quantized_rows(matrix.type);
    const size_t record = quantized_row_bytes(matrix.cols);
    const float *norm = cpu_weight(*spec.norm).vector();
    const float eps = spec.norm_eps;
    const auto input = [this, own, norm, eps, quantized, record](int first, int last, int thread) {
        const Workspace &w = state_.workspace;
        std::byte *quants = own ? w.scratch(thread).quants : w.quants();
        for (int i = first; i < last; ++i) {
            float *to = own ? state_.act(Act::normed, i, thread) : w.head_input(i);
            ops_.rms_norm(state_.act(Act::residual, head_rows_[i], thread), norm, eps, to, w.width(Act::residual));
            if (quantized)
                kernels_.quantize_row(to, w.width(Act::residual), quants + size_t(i) * record);
        }
    };
    if (own)
        pass_.add_everywhere(n, input);
    else
        pass_.add(n, 1, input);
    pass_.add_shrinking(static_cast<int>(matrix.tiles()), grain(matrix.tiles()),
                        [this, spec, &matrix, own, n](int first, int last, int thread) {
        run_head(spec, matrix, own, n, first, last, thread);
    });
}

void ProductPlanner::run_head(const HeadSpec &spec, const PackedMatrix &matrix, bool own, int n, int first, int last,
                              int thread) const {
    const Workspace &w = state_.workspace;
    const ActivationRows input{own ? state_.act(Act::normed, 0, thread) : w.head_input(0), w.stride(Act::residual),
                               own ? w.scratch(thread).quants : w.quants()};
    kernels_.matmul(matrix, static_cast<uint64_t>(first), static_cast<uint64_t>(last), input, n, w.logits(0), w.logits_stride(),
                    spec.bias ? cpu_weight(*spec.bias).vector() : nullptr);
    const size_t lanes = static_cast<size_t>(matrix.lanes);
    const size_t from = first * lanes, to = std::min<size_t>(last * lanes, matrix.rows);
    for (int i = 0; i < n; ++i) {
        if (spec.logit_scale != 1.0f)
            ops_.scale(w.logits(i) + from, spec.logit_scale, to - from);
        if (spec.softcap != 0.0f)
            ops_.softcap(w.logits(i) + from, spec.softcap, to - from);
    }
}

} // namespace muser::cpu
