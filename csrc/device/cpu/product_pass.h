// Plans the matrix products of a pass: one pool of weight tiles for all products of an input, whose rows are
// quantized once. A GLU right after its two products is applied to each pair of tiles while they are warm; where threads
// take rows through a whole layer and only a quantized product reads them, its values are quantized there and then.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/matmul.h"
#include "device/cpu/ops.h"
#include "device/cpu/pass.h"
#include "device/cpu/pass_state.h"

namespace muser::cpu {

class ProductPlanner {
  public:
    ProductPlanner(const OpKernels &ops, const MatmulKernels &kernels, PassState &state, Pass &pass)
        : ops_(ops), kernels_(kernels), state_(state), pass_(pass) {}

    void begin();
    void record(Act in, std::span<const Projection> projections);
    // False, and nothing recorded, unless what was recorded last is the product of ffn_gate and ffn_up.
    bool join_glu(Activation activation);
    void wrote(Act act);  // its int8 rows are out of date
    void forget_quants() { quantized_ = Act::count; }

  private:
    using Glu = void (*)(float *x, const float *up, size_t n);
    enum class Quants { shared, own, of_glu }; // whose buffer has an input's int8 rows
    struct Product {
        const PackedMatrix *matrix;
        const float *bias;
        Act out;
    };
    struct RowRange {
        int first, count;
    };
    struct Group { // the products of one input, in one step
        Act in;
        RowRange rows;
        size_t first, n; // in products_
        Quants quants;
        Glu glu;            // set: two products, taken together tile by tile
        bool quantizes_glu; // and nobody wants the float values
        size_t end; // tasks of the pass after it was recorded
    };

    Quants quantize(Act in, bool only_quants);
    bool can_quantize_in_glu(Act in) const;
    // first, last: tiles.
    void run(const Group &group, RowRange rows, int first, int last, int thread) const;
    void run_glu(const Group &group, RowRange rows, int first, int last, int thread) const;
    void multiply(const Group &group, const Product &product, RowRange rows, int first, int last, int thread) const;
    void multiply(const Group &group, const Product &product, RowRange rows, int first, int last, int thread, float *out,
                  size_t stride) const;
    void run_rows(const Group &group, RowRange rows, int thread) const; // all tiles of them
    void run_quantized_glu(const Group &group, RowRange rows, int thread) const;
    // Where the int8 rows of the rows [first, ...) that one call or turn takes begin: none meets another turn's, whatever
    // the width.
    std::byte *quants(Quants whose, int first, int thread) const {
        switch (whose) {
        case Quants::own: return state_.workspace.scratch(thread).quants;
        case Quants::of_glu: return reinterpret_cast<std::byte *>(state_.workspace.row(Act::ffn_up, first));
        case Quants::shared: break;
        }
        return state_.workspace.quants() + size_t(first) * state_.workspace.quants_stride();
    }

    const OpKernels &ops_;
    const MatmulKernels &kernels_;
    PassState &state_;
    Pass &pass_;

    std::vector<Product> products_;
    std::vector<Group> groups_;
    Act quantized_ = Act::count; // whose int8 rows there are at this point of the recording
    Quants quants_ = Quants::shared; // and where
};

} // namespace muser::cpu
