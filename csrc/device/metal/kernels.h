// Compiled kernels, by what they are for. A file of metal/ is compiled when its first kernel is asked for; the result is
// kept. Not thread-safe: the device's one caller at a time owns it.
#pragma once

#import <Metal/Metal.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"

namespace muser::metal {

struct Kernel {
    id<MTLComputePipelineState> state = nil;
    uint32_t max_threads = 0; // of a threadgroup
    // At most `most`, in whole SIMD-groups.
    uint32_t threads(uint32_t most) const { return std::min(most, max_threads / 32 * 32); }
};

class Kernels {
  public:
    explicit Kernels(id<MTLDevice> device);

    // Compiles a weight type's file now: at load, so that the first pass need not.
    void prepare(gguf::BlockType type);

    const Kernel &embed(gguf::BlockType type);
    const Kernel &matvec(gguf::BlockType type, uint32_t rows); // 1..4
    const Kernel &matvec_divided(gguf::BlockType type, uint32_t rows);
    const Kernel &matvec_staged(gguf::BlockType type, uint32_t rows);
    const Kernel &matmul(gguf::BlockType type, uint32_t tile_rows); // 8, 16, 32
    const Kernel &attention(KvType type, uint32_t vectors);         // 1, 2, 4, 8, 16
    const Kernel &store(KvType type);
    const Kernel &residual_norm();
    const Kernel &merge_attention();
    const Kernel &glu();
    const Kernel &copy_rows();
    const Kernel &argmax();

  private:
    // `slot` numbers the kernels; names are put together only for the first use.
    template <class Name> const Kernel &at(size_t slot, const Name &name);
    const Kernel &made(Kernel &kernel, const std::string &file, const std::string &function);
    id<MTLLibrary> library(const std::string &file);

    id<MTLDevice> device_;
    std::map<std::string, id<MTLLibrary>> libraries_;
    std::vector<Kernel> kernels_;
};

} // namespace muser::metal
