// Names, slots, and the two steps from source text to a pipeline.
#import "device/metal/kernels.h"

#include <algorithm>
#include <bit>
#include <cctype>

#include "core/error.h"
#import "device/metal/gpu.h"
#include "device/metal/sources.h"

namespace muser::metal {

namespace {

enum Slot : size_t { kResidualNorm, kMerge, kGlu, kCopy, kArgmax, kStore, kAttention = kStore + 3, kWeights = kAttention + 3 * 5 };
constexpr size_t kSlotsOfType = 16; // matvec 0..3, matvec_staged 4..7, matmul 8..10, embed 11, matvec_divided 12..15

size_t weight_slot(gguf::BlockType type, size_t which) { return kWeights + static_cast<size_t>(type) * kSlotsOfType + which; }

std::string lower_name(gguf::BlockType type) {
    std::string name(gguf::traits(type).name);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name;
}
const char *plane_name(KvType type) { return type == KvType::f16 ? "f16" : type == KvType::f32 ? "f32" : "q8_0"; }

} // namespace

Kernels::Kernels(id<MTLDevice> device) : device_(device), kernels_(weight_slot(gguf::BlockType::BF16, kSlotsOfType)) {}

id<MTLLibrary> Kernels::library(const std::string &file) {
    id<MTLLibrary> __strong &library = libraries_[file];
    if (library)
        return library;
    MTLCompileOptions *options = [MTLCompileOptions new];
    options.languageVersion = MTLLanguageVersion3_1; // macOS 14
    options.fastMathEnabled = NO;                    // exactness: no sum is put in another order
    NSError *error = nil;
    NSString *source = [NSString stringWithUTF8String:kernel_source(file).c_str()];
    library = [device_ newLibraryWithSource:source options:options error:&error];
    if (!library)
        throw Error(ErrorCode::device, "Metal cannot compile " + file + ".metal: " + text_of(error));
    return library;
}

const Kernel &Kernels::made(Kernel &kernel, const std::string &file, const std::string &function) {
    NSError *error = nil;
    id<MTLFunction> code = [library(file) newFunctionWithName:[NSString stringWithUTF8String:function.c_str()]];
    if (!code)
        throw Error(ErrorCode::internal, file + ".metal has no kernel " + function);
    kernel.state = [device_ newComputePipelineStateWithFunction:code error:&error];
    if (!kernel.state)
        throw Error(ErrorCode::device, "Metal cannot make a pipeline of " + function + ": " + text_of(error));
    if (kernel.state.threadExecutionWidth != 32)
        throw Error(ErrorCode::unsupported_device, "a GPU whose SIMD-groups are not of 32 threads");
    kernel.max_threads = static_cast<uint32_t>(kernel.state.maxTotalThreadsPerThreadgroup);
    return kernel;
}

template <class Name> const Kernel &Kernels::at(size_t slot, const Name &name) {
    Kernel &kernel = kernels_.at(slot);
    if (kernel.state)
        return kernel;
    @autoreleasepool {
        const auto [file, function] = name();
        return made(kernel, file, function);
    }
}

void Kernels::prepare(gguf::BlockType type) {
    @autoreleasepool {
        library(lower_name(type));
    }
}

const Kernel &Kernels::embed(gguf::BlockType type) {
    return at(weight_slot(type, 11), [&] { return std::pair(lower_name(type), "embed_" + lower_name(type)); });
}
const Kernel &Kernels::matvec(gguf::BlockType type, uint32_t rows) {
    return at(weight_slot(type, rows - 1),
              [&] { return std::pair(lower_name(type), "matvec_" + lower_name(type) + "_" + std::to_string(rows)); });
}
const Kernel &Kernels::matvec_divided(gguf::BlockType type, uint32_t rows) {
    return at(weight_slot(type, 12 + rows - 1),
              [&] { return std::pair(lower_name(type), "matvec_divided_" + lower_name(type) + "_" + std::to_string(rows)); });
}
const Kernel &Kernels::matvec_staged(gguf::BlockType type, uint32_t rows) {
    return at(weight_slot(type, 4 + rows - 1),
              [&] { return std::pair(lower_name(type), "matvec_staged_" + lower_name(type) + "_" + std::to_string(rows)); });
}
const Kernel &Kernels::matmul(gguf::BlockType type, uint32_t tile_rows) {
    return at(weight_slot(type, 8 + tile_rows / 16),
              [&] { return std::pair(lower_name(type), "matmul_" + lower_name(type) + "_" + std::to_string(tile_rows)); });
}
const Kernel &Kernels::attention(KvType type, uint32_t vectors) {
    return at(kAttention + static_cast<size_t>(type) * 5 + static_cast<size_t>(std::countr_zero(vectors)), [&] {
        return std::pair(std::string("attention"), std::string("attention_") + plane_name(type) + "_" + std::to_string(vectors));
    });
}
const Kernel &Kernels::store(KvType type) {
    return at(kStore + static_cast<size_t>(type),
              [&] { return std::pair(std::string("store"), std::string("store_") + plane_name(type)); });
}

#define MUSER_PLAIN_KERNEL(SLOT, FILE, FUNCTION) \
    const Kernel &Kernels::FUNCTION() { return at(SLOT, [] { return std::pair(std::string(FILE), std::string(#FUNCTION)); }); }
MUSER_PLAIN_KERNEL(kResidualNorm, "norm", residual_norm)
MUSER_PLAIN_KERNEL(kMerge, "merge", merge_attention)
MUSER_PLAIN_KERNEL(kGlu, "glu", glu)
MUSER_PLAIN_KERNEL(kCopy, "copy", copy_rows)
MUSER_PLAIN_KERNEL(kArgmax, "argmax", argmax)
#undef MUSER_PLAIN_KERNEL

} // namespace muser::metal
