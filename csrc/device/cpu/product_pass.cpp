// Records and runs the steps of matrix products.
#include "device/cpu/product_pass.h"

#include <algorithm>

#include "device/cpu/require.h"
#include "device/cpu/weight.h"

namespace muser::cpu {

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
    const auto task = [this, in, own, record](int first, int last, int thread) {
        std::byte *to = own ? state_.workspace.scratch(thread).quants : state_.workspace.quants();
        for (int row = first; row < last; ++row)
            kernels_.quantize_row(state_.act(in, row, thread), state_.width(in), to + size_t(row) * record);
    };
    if (own) {
        pass_.add_everywhere(state_.n_rows(), task);
        state_.reads_everywhere(in);
    } else {
        pass_.add_rows(state_.n_rows(), task);
    }
    quantized_ = in;
    own_quants_ = own;
    return own;
}

void ProductPlanner::record(Act in, std::span<const Projection> projections) {
    Group group{in, products_.size(), projections.size(), false, nullptr, 0};
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
    pass_.add(static_cast<int>(tiles), grain(tiles), [this, index](int first, int last, int thread) {
        const Group &g = groups_[index];
        g.glu ? run_glu(g, first, last, thread) : run(g, first, last, thread);
    });
    group.step = pass_.n_steps();
    groups_.push_back(group);
}

bool ProductPlanner::join_glu(Activation activation) {
    if (groups_.empty() || groups_.back().step != pass_.n_steps() || groups_.back().n != 2)
        return false;
    Group &group = groups_.back();
    if (products_[group.first].out != Act::ffn_gate || products_[group.first + 1].out != Act::ffn_up)
        return false;
    group.glu = activation == Activation::silu ? ops_.silu_glu : ops_.gelu_tanh_glu;
    const uint64_t tiles = products_[group.first].matrix->tiles();
    pass_.resplit_last(static_cast<int>(tiles), grain(tiles));
    return true;
}

void ProductPlanner::multiply(const Group &group, const Product &product, int first, int last, int thread) const {
    const ActivationRows input{state_.act(group.in, 0, thread), state_.workspace.stride(group.in),
                               group.own_quants ? state_.workspace.scratch(thread).quants : state_.workspace.quants()};
    kernels_.matmul(*product.matrix, static_cast<uint64_t>(first), static_cast<uint64_t>(last), input, state_.n_rows(),
                    state_.workspace.row(product.out, 0), state_.workspace.stride(product.out), product.bias);
}

// Tiles of all products of the group are numbered through.
void ProductPlanner::run(const Group &group, int first, int last, int thread) const {
    for (size_t i = group.first; i < group.first + group.n && last > 0; ++i) {
        const int tiles = static_cast<int>(products_[i].matrix->tiles());
        if (first < tiles)
            multiply(group, products_[i], std::max(first, 0), std::min(last, tiles), thread);
        first -= tiles;
        last -= tiles;
    }
}

void ProductPlanner::run_glu(const Group &group, int first, int last, int thread) const {
    const Product &gate = products_[group.first], &up = products_[group.first + 1];
    multiply(group, gate, first, last, thread);
    multiply(group, up, first, last, thread);
    const size_t lanes = static_cast<size_t>(gate.matrix->lanes);
    const size_t from = first * lanes, to = std::min<size_t>(last * lanes, gate.matrix->rows);
    for (int row = 0; row < state_.n_rows(); ++row)
        group.glu(state_.workspace.row(Act::ffn_gate, row) + from, state_.workspace.row(Act::ffn_up, row) + from, to - from);
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
    pass_.add(static_cast<int>(matrix.tiles()), grain(matrix.tiles()), [this, spec, &matrix, own, n](int first, int last, int thread) {
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
