// Records and runs the steps of matrix products.
#include "device/cpu/product_pass.h"

#include <algorithm>
#include <climits>

#include "device/cpu/require.h"
#include "device/cpu/weight.h"

namespace muser::cpu {

namespace {

constexpr int kGluTiles = 8; // of both products at once: what they write is still near when the GLU reads it
// The same in columns, where the values are quantized next: blocks eight at a time (matmul.h). Of each row's two parts the
// beginnings are not a power of two apart, which would share cache sets.
constexpr size_t kGluColumns = 256, kGluStride = kGluColumns + 16;

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

// Of the step that was recorded last, if that is the GLU which makes them. Its float values have no place of their own then:
// the two parts that it multiplies take the rows of ffn_gate, the int8 rows those of ffn_up.
bool ProductPlanner::can_quantize_in_glu(Act in) const {
    const Workspace &w = state_.workspace;
    return in == Act::ffn_gate && state_.by_rows() && !groups_.empty() && groups_.back().glu &&
           groups_.back().end == pass_.n_tasks() && w.stride(in) >= 2 * kGluStride &&
           w.stride(Act::ffn_up) * sizeof(float) >= quantized_row_bytes(w.width(in));
}

// Records, where they are not there yet, the int8 rows of an input; only_quants: nobody reads its float rows.
ProductPlanner::Quants ProductPlanner::quantize(Act in, bool only_quants) {
    if (quantized_ == in)
        return quants_;
    quantized_ = in;
    if (only_quants && can_quantize_in_glu(in)) {
        groups_.back().quantizes_glu = true;
        return quants_ = Quants::of_glu;
    }
    const bool own = state_.is_own(in) || (state_.few() && state_.is_small(in));
    quants_ = own ? Quants::own : Quants::shared;
    const size_t record = quantized_row_bytes(state_.width(in));
    const int base = state_.first_row();
    const auto task = [this, in, where = quants_, record, base, by_rows = state_.by_rows()](int first, int last, int thread) {
        const int origin = by_rows ? base + first : base; // the first row of the product that reads them
        std::byte *to = quants(where, origin, thread) - size_t(origin) * record;
        for (int row = base + first; row < base + last; ++row)
            kernels_.quantize_row(state_.act(in, row, thread), state_.width(in), to + size_t(row) * record);
    };
    if (own) {
        pass_.add_everywhere(state_.n_rows(), task);
        state_.reads_everywhere(in);
    } else {
        pass_.add_rows(state_.wanted_rows(), task);
    }
    return quants_;
}

void ProductPlanner::record(Act in, std::span<const Projection> projections) {
    Group group{in, {state_.first_row(), state_.wanted_rows()}, products_.size(), projections.size(), Quants::shared, nullptr,
                false, 0};
    uint64_t tiles = 0;
    bool quantized = false, only_quants = true;
    for (const Projection &p : projections) {
        const PackedMatrix &matrix = cpu_weight(*p.weight).matrix();
        require(matrix.cols == state_.width(in), "matmul input width");
        require(matrix.rows == state_.width(p.out), "matmul output width");
        products_.push_back({&matrix, p.bias ? cpu_weight(*p.bias).vector() : nullptr, p.out});
        tiles += matrix.tiles();
        quantized |= needs_quantized_rows(matrix.type);
        only_quants &= needs_quantized_rows(matrix.type);
    }
    if (quantized)
        group.quants = quantize(in, only_quants);
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
        pass_.add_shrinking(static_cast<int>(tiles), pass_.tile_grain(tiles), [this, index](int first, int last, int thread) {
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
        pass_.resplit_last(static_cast<int>(tiles), pass_.tile_grain(tiles));
    return true;
}

void ProductPlanner::multiply(const Group &group, const Product &product, RowRange rows, int first, int last,
                              int thread) const {
    const Workspace &w = state_.workspace;
    multiply(group, product, rows, first, last, thread, w.row(product.out, rows.first), w.stride(product.out));
}

void ProductPlanner::multiply(const Group &group, const Product &product, RowRange rows, int first, int last, int thread,
                              float *out, size_t stride) const {
    const ActivationRows input{state_.act(group.in, rows.first, thread), state_.workspace.stride(group.in),
                               quants(group.quants, rows.first, thread)};
    kernels_.matmul(*product.matrix, static_cast<uint64_t>(first), static_cast<uint64_t>(last), input, rows.count, out, stride,
                    product.bias);
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
    if (group.quantizes_glu)
        return run_quantized_glu(group, rows, thread);
    const int tiles = static_cast<int>(products_[group.first].matrix->tiles());
    for (int first = 0; first < tiles; first += kGluTiles)
        run_glu(group, rows, first, std::min(first + kGluTiles, tiles), thread);
}

void ProductPlanner::run_quantized_glu(const Group &group, RowRange rows, int thread) const {
    const Product &gate = products_[group.first], &up = products_[group.first + 1];
    const size_t width = gate.matrix->rows, lanes = static_cast<size_t>(gate.matrix->lanes);
    float *gate_part = state_.workspace.row(Act::ffn_gate, rows.first);
    float *up_part = gate_part + static_cast<size_t>(rows.count) * kGluStride;
    std::byte *to = quants(Quants::of_glu, rows.first, thread);
    for (size_t column = 0; column < width; column += kGluColumns) {
        const size_t n = std::min(kGluColumns, width - column);
        const int first = static_cast<int>(column / lanes), last = static_cast<int>((column + n + lanes - 1) / lanes);
        multiply(group, gate, rows, first, last, thread, gate_part - column, kGluStride);
        multiply(group, up, rows, first, last, thread, up_part - column, kGluStride);
        for (size_t r = 0; r < static_cast<size_t>(rows.count); ++r) {
            group.glu(gate_part + r * kGluStride, up_part + r * kGluStride, n);
            kernels_.quantize_blocks(gate_part + r * kGluStride, width, column / kQuantBlock, (column + n) / kQuantBlock,
                                     to + r * quantized_row_bytes(width));
        }
    }
}

} // namespace muser::cpu
