// A small host in the manner of the production one, for the simulator's own tests: a norm and a matvec in one command
// buffer, one concurrent encoder, one barrier between them, one bounded wait. Plain C to the outside.
#import <Metal/Metal.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace {

struct NormArgs {
    int width;
    float epsilon;
};
struct MatvecArgs {
    int rows, blocks;
};

[[noreturn]] void fail(const std::string &what, NSError *error) {
    throw std::runtime_error(error ? what + ": " + error.localizedDescription.UTF8String : what);
}

// What a completion handler and the waiting thread share; the handler may come after the thread has given up.
struct Completion {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::string error;
};

class Host {
  public:
    Host(const char *norm_source, const char *matvec_source, void *matrix, size_t bytes, int rows, int blocks)
        : rows_(rows), blocks_(blocks) {
        device_ = MTLCreateSystemDefaultDevice();
        queue_ = [device_ newCommandQueue];
        MTLFunctionConstantValues *constants = [MTLFunctionConstantValues new];
        const bool weighted = false;
        [constants setConstantValue:&weighted type:MTLDataTypeBool atIndex:0];
        norm_ = pipeline(norm_source, @"rms_norm", constants);
        for (int i = 0; i < 2; ++i)
            matvec_[i] = pipeline(matvec_source, i ? @"matvec_x2" : @"matvec_x1", [MTLFunctionConstantValues new]);
        matrix_ = [device_ newBufferWithBytesNoCopy:matrix length:bytes options:MTLResourceStorageModeShared deallocator:nil];
        if (!matrix_) fail("the matrix cannot be bound", nil);
        const NSUInteger row_bytes = static_cast<NSUInteger>(blocks) * 32 * sizeof(float);
        x_ = [device_ newBufferWithLength:2 * row_bytes options:MTLResourceStorageModeShared];
        normed_ = [device_ newBufferWithLength:2 * row_bytes options:MTLResourceStorageModePrivate];
        y_ = [device_ newBufferWithLength:2 * static_cast<NSUInteger>(rows) * sizeof(float) options:MTLResourceStorageModeShared];
        if (@available(macOS 15.0, *)) {
            id<MTLResidencySet> set = [device_ newResidencySetWithDescriptor:[MTLResidencySetDescriptor new] error:nil];
            [set addAllocation:matrix_];
            [set commit];
            [set requestResidency];
            if (set) [queue_ addResidencySet:set];
            resident_ = set;
        }
    }
    ~Host() {
        if (@available(macOS 15.0, *)) [static_cast<id<MTLResidencySet>>(resident_) endResidency];
    }

    void forward(const float *x, int vectors, float *y, int timeout_ms) {
        memcpy(x_.contents, x, static_cast<size_t>(vectors) * width() * sizeof(float));
        id<MTLCommandBuffer> commands = [queue_ commandBuffer];
        id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
        encode_norm(encoder, vectors);
        [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
        encode_matvec(encoder, vectors);
        [encoder endEncoding];
        auto completion = std::make_shared<Completion>();
        [commands addCompletedHandler:^(id<MTLCommandBuffer> done) {
            const std::lock_guard lock(completion->mutex);
            completion->done = true;
            if (done.error) completion->error = done.error.localizedDescription.UTF8String;
            completion->changed.notify_all();
        }];
        [commands commit];
        std::unique_lock lock(completion->mutex);
        if (!completion->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return completion->done; }))
            throw std::runtime_error("the GPU did not answer");
        if (!completion->error.empty()) throw std::runtime_error(completion->error);
        memcpy(y, y_.contents, static_cast<size_t>(vectors * rows_) * sizeof(float));
    }

  private:
    size_t width() const { return static_cast<size_t>(blocks_) * 32; }

    id<MTLComputePipelineState> pipeline(const char *source, NSString *name, MTLFunctionConstantValues *constants) {
        NSError *error = nil;
        MTLCompileOptions *options = [MTLCompileOptions new];
        options.languageVersion = MTLLanguageVersion3_1;
        id<MTLLibrary> library = [device_ newLibraryWithSource:[NSString stringWithUTF8String:source] options:options error:&error];
        if (!library) fail("compiling", error);
        id<MTLFunction> function = [library newFunctionWithName:name constantValues:constants error:&error];
        if (!function) fail("finding a function", error);
        id<MTLComputePipelineState> state = [device_ newComputePipelineStateWithFunction:function error:&error];
        if (!state) fail("making a pipeline", error);
        return state;
    }

    void encode_norm(id<MTLComputeCommandEncoder> encoder, int vectors) {
        const NormArgs args{static_cast<int>(width()), 1e-5f};
        [encoder setComputePipelineState:norm_];
        [encoder setBytes:&args length:sizeof args atIndex:0];
        [encoder setBuffer:x_ offset:0 atIndex:1];
        [encoder setBuffer:normed_ offset:0 atIndex:3];
        [encoder setThreadgroupMemoryLength:32 * sizeof(float) atIndex:0];
        const NSUInteger threads = norm_.maxTotalThreadsPerThreadgroup < 256 ? norm_.maxTotalThreadsPerThreadgroup : 256;
        [encoder dispatchThreadgroups:MTLSizeMake(static_cast<NSUInteger>(vectors), 1, 1)
                threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
    }

    void encode_matvec(id<MTLComputeCommandEncoder> encoder, int vectors) {
        const MatvecArgs args{rows_, blocks_};
        [encoder setComputePipelineState:matvec_[vectors - 1]];
        [encoder setBytes:&args length:sizeof args atIndex:0];
        [encoder setBuffer:matrix_ offset:0 atIndex:1];
        [encoder setBuffer:normed_ offset:0 atIndex:2];
        [encoder setBuffer:y_ offset:0 atIndex:3];
        const NSUInteger groups = static_cast<NSUInteger>(rows_ + 3) / 4;
        [encoder dispatchThreadgroups:MTLSizeMake(groups, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 4, 1)];
    }

    int rows_, blocks_;
    id<MTLDevice> device_;
    id<MTLCommandQueue> queue_;
    id<MTLComputePipelineState> norm_, matvec_[2];
    id<MTLBuffer> matrix_, x_, normed_, y_;
    id resident_; // a residency set where there are some
};

// The text of an exception, which the caller frees; null when there was none.
template <class Body> char *guarded(Body body) {
    @autoreleasepool {
        try {
            body();
            return nullptr;
        } catch (const std::exception &error) {
            return strdup(error.what());
        }
    }
}

} // namespace

extern "C" {

char *host_open(const char *norm, const char *matvec, void *matrix, size_t bytes, int rows, int blocks, void **host) {
    return guarded([&] { *host = new Host(norm, matvec, matrix, bytes, rows, blocks); });
}
char *host_forward(void *host, const float *x, int vectors, float *y, int timeout_ms) {
    return guarded([&] { static_cast<Host *>(host)->forward(x, vectors, y, timeout_ms); });
}
char *host_close(void *host) {
    return guarded([&] { delete static_cast<Host *>(host); });
}
}
