// The MTLDevice and its one queue: memory, compiled kernels, and what the system says about itself.
#pragma once

#import <Metal/Metal.h>

#include <string>

namespace muser::metal {

// Metal's own words about what went wrong.
std::string text_of(NSError *error);

// A part of a buffer, as a kernel gets it.
struct Place {
    id<MTLBuffer> buffer = nil;
    NSUInteger offset = 0;
};

class Gpu {
  public:
    explicit Gpu(id<MTLDevice> device);
    ~Gpu();
    Gpu(const Gpu &) = delete;
    Gpu &operator=(const Gpu &) = delete;

    id<MTLDevice> device() const { return device_; }
    id<MTLCommandQueue> queue() const { return queue_; }

    // Hazards are not tracked by Metal: a pass orders its own dispatches (pass_encoder.h), and passes wait for each
    // other. Shared memory is zeroed. Throws Error{out_of_memory}.
    id<MTLBuffer> shared(uint64_t bytes) const;
    id<MTLBuffer> private_memory(uint64_t bytes) const; // the host does not see it
    id<MTLBuffer> borrow(void *pages, uint64_t bytes) const; // whole pages, without a copy

    // Keeps a buffer wired while the queue lives, as far as the recommended working set reaches (macOS 15; before
    // that Metal decides pass by pass).
    void keep_resident(id<MTLBuffer> buffer);
    void commit_residency();

  private:
    id<MTLBuffer> checked(id<MTLBuffer> buffer, uint64_t bytes) const;

    id<MTLDevice> device_;
    id<MTLCommandQueue> queue_;
    id resident_; // MTLResidencySet, or nil
    uint64_t resident_bytes_ = 0;
};

} // namespace muser::metal
