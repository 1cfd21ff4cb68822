// Thin: what Metal calls cost a sentence here, so that they cost none elsewhere.
#import "device/metal/gpu.h"

#include <cstring>

#include "core/error.h"

namespace muser::metal {

std::string text_of(NSError *error) {
    const char *text = error.localizedDescription.UTF8String;
    return text ? text : "no reason was given";
}

Gpu::Gpu(id<MTLDevice> device) : device_(device), queue_([device newCommandQueue]), resident_(nil) {
    if (!queue_)
        throw Error(ErrorCode::device, "Metal gave no command queue");
    if (@available(macOS 15.0, *)) {
        id<MTLResidencySet> set = [device newResidencySetWithDescriptor:[MTLResidencySetDescriptor new] error:nil];
        if (set)
            [queue_ addResidencySet:set];
        resident_ = set;
    }
}

Gpu::~Gpu() {
    if (@available(macOS 15.0, *)) {
        id<MTLResidencySet> set = resident_;
        if (!set)
            return;
        if (resident_bytes_ > 0)
            [set endResidency];
        [queue_ removeResidencySet:set];
    }
}

id<MTLBuffer> Gpu::checked(id<MTLBuffer> buffer, uint64_t bytes) const {
    if (!buffer)
        throw Error(ErrorCode::out_of_memory, "Metal refused a buffer of " + std::to_string(bytes) + " bytes",
                    {{"needed", static_cast<int64_t>(bytes)}});
    return buffer;
}

id<MTLBuffer> Gpu::shared(uint64_t bytes) const {
    if (bytes > device_.maxBufferLength)
        return checked(nil, bytes);
    id<MTLBuffer> buffer = checked([device_ newBufferWithLength:bytes
                                                        options:MTLResourceStorageModeShared |
                                                                MTLResourceHazardTrackingModeUntracked],
                                   bytes);
    return buffer;
}

id<MTLBuffer> Gpu::private_memory(uint64_t bytes) const {
    if (bytes > device_.maxBufferLength)
        return checked(nil, bytes);
    return checked([device_ newBufferWithLength:bytes
                                        options:MTLResourceStorageModePrivate | MTLResourceHazardTrackingModeUntracked],
                   bytes);
}

id<MTLBuffer> Gpu::borrow(void *pages, uint64_t bytes) const {
    return checked([device_ newBufferWithBytesNoCopy:pages
                                              length:bytes
                                             options:MTLResourceStorageModeShared | MTLResourceHazardTrackingModeUntracked
                                         deallocator:nil],
                   bytes);
}

void Gpu::keep_resident(id<MTLBuffer> buffer) {
    if (@available(macOS 15.0, *)) {
        id<MTLResidencySet> set = resident_;
        if (!set || resident_bytes_ + buffer.allocatedSize > device_.recommendedMaxWorkingSetSize)
            return;
        [set addAllocation:buffer];
        if (resident_bytes_ == 0) {
            [set commit];
            [set requestResidency];
        }
        resident_bytes_ += buffer.allocatedSize;
    }
}

void Gpu::commit_residency() {
    if (@available(macOS 15.0, *))
        [(id<MTLResidencySet>)resident_ commit];
}

} // namespace muser::metal
