// Records matrix products: which of them share a dispatch, and with which kernel. A product of gate and up waits for
// the glu() that follows, to take it along.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#import "device/metal/pass_state.h"
#import "device/metal/weight.h"

namespace muser::metal {

class ProductRecorder {
  public:
    explicit ProductRecorder(PassState &state) : state_(state) {}

    void begin() { waiting_.clear(); }
    void record(Act in, std::span<const Projection> projections);
    void glu(Activation activation);
    void head(const HeadSpec &spec, uint32_t n_rows); // of head_input to logits
    void flush(); // what waits for a glu() that did not come

  private:
    struct Source {
        Place place;
        uint32_t stride;
        uint32_t cols;
        uint32_t n_rows;
        Resources bit;
    };
    struct Product {
        const MetalWeight *weight;
        const Weight *bias;
        Place out;
        uint32_t out_stride;
        Resources bit;
    };
    Source source(Act in) const;
    Product product(const Projection &projection) const;
    ProductArgs args_of(const Source &source, const Product &first) const; // less what there is one of for each matrix
    // Up to four products of one type.
    void encode(const Source &source, std::span<const Product> products, float scale, float softcap);
    void encode_all(Act in, std::span<const Projection> projections);
    bool glu_in_product(Activation activation);
    void encode_staged(const Source &source, const Product &product, float scale, float softcap);
    // Of two matrices, or of the halves of one that is given twice; `second` is where the second begins.
    void dispatch_staged(const Source &in, const ProductArgs &args, const Product &a, const Product &b, const Place &second,
                         const Place &out, Resources written);

    PassState &state_;
    Act waiting_in_ = Act::normed;
    std::vector<Projection> waiting_;
};

} // namespace muser::metal
