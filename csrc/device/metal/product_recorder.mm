// Arguments and bindings of the product kernels (metal/matvec.h, matvec_staged.h, matmul.h, glu.metal).
#import "device/metal/product_recorder.h"

#include <algorithm>

#include "device/metal/require.h"

namespace muser::metal {

namespace {

constexpr uint32_t kGroups = 4;        // SIMD-groups of a threadgroup
constexpr uint32_t kTileOutputs = 16;  // of a matmul's SIMD-group
constexpr uint32_t kGluThreads = 256;
constexpr uint32_t kHalves = 0x64006400; // of metal/weight.h

constexpr uint64_t kManyOutputs = 24576;

uint32_t parts(uint32_t n, uint32_t of) { return (n + of - 1) / of; }

// Outputs of a matvec's SIMD-group: NR of metal/<type>.metal.
uint32_t matvec_outputs(gguf::BlockType type, uint32_t n_rows) { return type == gguf::BlockType::Q8_0 && n_rows == 4 ? 4 : 2; }

// Outputs of each matrix of a matvec_staged's SIMD-group: N of metal/<type>.metal, for each of the rows that its lanes stand
// for (kRuns).
uint32_t staged_outputs(gguf::BlockType type, uint32_t n_rows) {
    using enum gguf::BlockType;
    const uint32_t runs = type == F32 || type == F16 || type == BF16 || type == Q8_0 ? 1 : 2;
    return (n_rows == 1 ? 1 : 2) * runs;
}

// Of one to four rows: by the shape alone, so that a row's sums are the same at every width. Measured, see docs/metal.md.
bool staged(uint64_t outputs) { return outputs >= kManyOutputs; }
bool divided(uint64_t outputs, uint64_t cols) { return cols >= 2 * outputs; }

uint32_t tile_rows(uint32_t n_rows) { return n_rows <= 8 ? 8 : n_rows <= 16 ? 16 : 32; }

} // namespace

ProductRecorder::Source ProductRecorder::source(Act in) const {
    const Workspace &w = state_.workspace;
    require(!state_.few || in == Act::normed || in == Act::attention || in == Act::ffn_gate, "an input that is not in lane order");
    const bool from_glu = state_.few && in == Act::ffn_gate;
    return {from_glu ? w.glu_out() : w.act(in), w.stride(in), w.width(in), state_.n_rows(), from_glu ? bit(kGluOut) : bit(in)};
}

ProductRecorder::Product ProductRecorder::product(const Projection &p) const {
    const Workspace &w = state_.workspace;
    require(p.weight->rows == w.width(p.out), "the rows of a matrix and the width of its output differ");
    return {&matrix_of(*p.weight), p.bias, w.act(p.out), w.stride(p.out), bit(p.out)};
}

ProductArgs ProductRecorder::args_of(const Source &source, const Product &first) const {
    ProductArgs args{};
    args.cols = source.cols;
    args.row_bytes = first.weight->row_bytes;
    args.n_rows = source.n_rows;
    args.x_stride = source.stride;
    args.halves = kHalves;
    args.scale = 1.0f;
    return args;
}

void ProductRecorder::encode(const Source &source, std::span<const Product> products, float scale, float softcap) {
    if (state_.few && products.size() == 1 && staged(products[0].weight->rows))
        return encode_staged(source, products[0], scale, softcap);
    const gguf::BlockType type = products[0].weight->type;
    const auto long_rows = [&](const Product &p) { return divided(p.weight->rows, source.cols); };
    const bool divide = state_.few && std::ranges::all_of(products, long_rows);
    const Kernel &kernel = !state_.few ? state_.kernels.matmul(type, tile_rows(source.n_rows))
                           : divide    ? state_.kernels.matvec_divided(type, source.n_rows)
                                       : state_.kernels.matvec(type, source.n_rows);
    const uint32_t of_tile = divide ? 64 : 32; // threads of a matvec
    const uint32_t threads = kernel.threads(kGroups * 32) / of_tile * of_tile;
    const uint32_t outputs = state_.few ? matvec_outputs(type, source.n_rows) : threads / 32 * kTileOutputs; // of a tile
    ProductArgs args = args_of(source, products[0]);
    args.n_matrices = static_cast<uint32_t>(products.size());
    args.scale = scale;
    args.softcap = softcap;
    uint32_t tiles = 0;
    Resources written = 0;
    for (size_t i = 0; i < products.size(); ++i) {
        const Product &p = products[i];
        require(p.weight->cols == source.cols, "the columns of a matrix and the width of its input differ");
        args.first_tile[i] = tiles;
        args.rows[i] = static_cast<uint32_t>(p.weight->rows);
        args.out_stride[i] = p.out_stride;
        args.biases |= p.bias ? 1u << i : 0u;
        tiles += parts(args.rows[i], outputs);
        written |= p.bit;
    }
    PassEncoder &e = state_.encoder;
    e.use(kernel);
    e.args(args);
    e.bind(1, source.place);
    for (uint32_t i = 0; i < 4; ++i) { // the kernel has four of each; the others repeat the first
        const Product &p = products[i < products.size() ? i : 0];
        e.bind(2 + i, *p.weight->place);
        e.bind(6 + i, p.bias ? vector_of(*p.bias) : p.out);
        e.bind(10 + i, p.out);
    }
    const MTLSize grid = state_.few ? MTLSizeMake(parts(tiles, threads / of_tile), 1, 1)
                                    : MTLSizeMake(tiles, parts(source.n_rows, tile_rows(source.n_rows)), 1);
    e.dispatch(grid, threads, source.bit, written);
}

void ProductRecorder::encode_all(Act in, std::span<const Projection> projections) {
    std::vector<Product> left;
    for (const Projection &p : projections)
        left.push_back(product(p));
    while (!left.empty()) { // those of one type together
        std::vector<Product> same, others;
        for (const Product &p : left)
            (p.weight->type == left[0].weight->type && same.size() < 4 ? same : others).push_back(p);
        encode(source(in), same, 1.0f, 0.0f);
        left = std::move(others);
    }
}

void ProductRecorder::record(Act in, std::span<const Projection> projections) {
    flush();
    if (projections.size() == 2 && projections[0].out == Act::ffn_gate && projections[1].out == Act::ffn_up) {
        waiting_in_ = in;
        waiting_.assign(projections.begin(), projections.end());
    } else {
        encode_all(in, projections);
    }
}

void ProductRecorder::flush() {
    if (waiting_.empty())
        return;
    const std::vector<Projection> projections = std::move(waiting_);
    waiting_.clear();
    encode_all(waiting_in_, projections);
}

bool ProductRecorder::glu_in_product(Activation activation) {
    if (waiting_.empty() || !state_.few)
        return false;
    const Product gate = product(waiting_[0]), up = product(waiting_[1]);
    if (gate.weight->type != up.weight->type)
        return false;
    const Source in = source(waiting_in_);
    ProductArgs args = args_of(in, gate);
    args.n_matrices = 2;
    args.rows[0] = args.rows[1] = static_cast<uint32_t>(gate.weight->rows);
    args.out_stride[0] = gate.out_stride;
    args.biases = (gate.bias ? 1u : 0u) | (up.bias ? 2u : 0u);
    args.gelu = activation == Activation::gelu_tanh;
    dispatch_staged(in, args, gate, up, *up.weight->place, state_.workspace.glu_out(), bit(kGluOut));
    waiting_.clear();
    return true;
}

void ProductRecorder::encode_staged(const Source &source, const Product &p, float scale, float softcap) {
    require(p.weight->cols == source.cols, "the columns of a matrix and the width of its input differ");
    const auto rows = static_cast<uint32_t>(p.weight->rows);
    ProductArgs args = args_of(source, p);
    args.n_matrices = 1;
    args.rows[1] = rows / 4 * 2; // even: two rows are whole words
    args.rows[0] = rows - args.rows[1];
    args.out_stride[0] = p.out_stride;
    args.biases = p.bias ? 1u : 0u;
    args.scale = scale;
    args.softcap = softcap;
    Place second = *p.weight->place;
    second.offset += uint64_t(args.rows[1]) * args.row_bytes;
    dispatch_staged(source, args, p, p, second, p.out, p.bit);
}

void ProductRecorder::dispatch_staged(const Source &in, const ProductArgs &args, const Product &a, const Product &b,
                                      const Place &second, const Place &out, Resources written) {
    const Kernel &kernel = state_.kernels.matvec_staged(a.weight->type, in.n_rows);
    const uint32_t threads = kernel.threads(kGroups * 32), outputs = threads / 32 * staged_outputs(a.weight->type, in.n_rows);
    PassEncoder &e = state_.encoder;
    e.use(kernel);
    e.args(args);
    e.bind(1, in.place);
    e.bind(2, *a.weight->place);
    e.bind(3, second);
    e.bind(4, a.bias ? vector_of(*a.bias) : a.out);
    e.bind(5, b.bias ? vector_of(*b.bias) : b.out);
    e.bind(6, out);
    e.dispatch(MTLSizeMake(parts(args.rows[0], outputs), 1, 1), threads, in.bit, written);
}

void ProductRecorder::glu(Activation activation) {
    if (glu_in_product(activation))
        return;
    flush();
    const Workspace &w = state_.workspace;
    const Kernel &kernel = state_.kernels.glu();
    const uint32_t threads = kernel.threads(kGluThreads);
    const GluArgs args{w.width(Act::ffn_gate), w.stride(Act::ffn_gate), activation == Activation::gelu_tanh, state_.few};
    PassEncoder &e = state_.encoder;
    e.use(kernel);
    e.args(args);
    e.bind(1, w.act(Act::ffn_gate));
    e.bind(2, w.act(Act::ffn_up));
    e.bind(3, state_.few ? w.glu_out() : w.act(Act::ffn_gate));
    e.dispatch(MTLSizeMake(parts(args.cols, threads), state_.n_rows(), 1), threads, bit(Act::ffn_gate) | bit(Act::ffn_up),
               state_.few ? bit(kGluOut) : bit(Act::ffn_gate));
}

void ProductRecorder::head(const HeadSpec &spec, uint32_t n_rows) {
    flush();
    const Workspace &w = state_.workspace;
    require(spec.weight->rows == w.spec().vocab, "the rows of the head and the vocabulary differ");
    const Source in{w.head_input(), w.stride(Act::residual), w.width(Act::residual), n_rows, bit(kHeadInput)};
    const Product logits{&matrix_of(*spec.weight), spec.bias, w.logits(), w.logits_stride(), bit(kLogits)};
    encode(in, {&logits, 1}, spec.logit_scale, spec.softcap);
}

} // namespace muser::metal
