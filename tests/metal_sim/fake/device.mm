// The device, buffers, fences, events, residency sets.
#include "objects.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <set>

#include "../runtime/reports.h"
#include "../runtime/worker.h"
#include "settings.h"

NSString *const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";
NSString *const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";

void fake_report(const std::string &text) { msl::report("Metal: " + text); }
NSError *fake_error(NSString *domain, NSInteger code, const std::string &text) {
    return [NSError errorWithDomain:domain code:code userInfo:[NSString stringWithUTF8String:text.c_str()]];
}

@implementation FakeBuffer
@synthesize label;
- (id<MTLDevice>)device {
    return owner;
}
- (NSUInteger)length {
    return store->memory.bytes;
}
- (NSUInteger)allocatedSize {
    return (store->memory.bytes + fake::page - 1) / fake::page * fake::page;
}
- (void *)contents {
    if (!store->is_private) return store->memory.base;
    fake_report("contents of a buffer in private storage");
    return nullptr;
}
- (MTLStorageMode)storageMode {
    return store->is_private ? MTLStorageModePrivate : MTLStorageModeShared;
}
- (MTLHazardTrackingMode)hazardTrackingMode {
    return store->untracked ? MTLHazardTrackingModeUntracked : MTLHazardTrackingModeTracked;
}
- (MTLResourceOptions)resourceOptions {
    return options;
}
- (void)dealloc {
    store->released = true;
    if (deallocator) deallocator(store->memory.base, store->memory.bytes);
}
@end

@implementation FakeFence
@synthesize label;
@end

@implementation FakeEvent
@synthesize label;
- (uint64_t)signaledValue {
    return event->value;
}
- (void)setSignaledValue:(uint64_t)value {
    event->value = value;
    event->value.notify_all();
}
- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (event->value < value) { // std::atomic has no wait with a deadline
        if (std::chrono::steady_clock::now() >= deadline) return NO;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return YES;
}
@end

@implementation MTLResidencySetDescriptor
@synthesize label, initialCapacity;
@end

@implementation FakeResidencySet {
    std::set<id> members, committed;
    bool requested, changed;
}
- (NSUInteger)allocationCount {
    return committed.size();
}
- (uint64_t)allocatedSize {
    uint64_t sum = 0;
    for (id<MTLAllocation> member : committed) sum += member.allocatedSize;
    return sum;
}
- (void)addAllocation:(id<MTLAllocation>)allocation {
    changed = members.insert(allocation).second || changed;
}
- (void)removeAllocation:(id<MTLAllocation>)allocation {
    if (!members.erase(allocation)) fake_report("a residency set does not have the allocation that is removed");
    changed = true;
}
- (void)removeAllAllocations {
    members.clear();
    changed = true;
}
- (BOOL)containsAllocation:(id<MTLAllocation>)allocation {
    return members.count(allocation) != 0;
}
- (void)commit {
    committed = members;
    changed = false;
    if (requested) [self checkSize];
}
- (void)requestResidency {
    [self mustBeCommitted];
    requested = true;
    [self checkSize];
}
- (void)endResidency {
    if (!requested) fake_report("endResidency without requestResidency");
    requested = false;
}
- (void)mustBeCommitted {
    if (changed) fake_report("a residency set is used with changes that are not committed");
}
- (void)checkSize {
    if (self.allocatedSize > static_cast<uint64_t>(fake::settings().working_set))
        fake_report("more is made resident than recommendedMaxWorkingSetSize");
}
- (void)dealloc {
    if (requested) fake_report("a residency set is released without endResidency");
}
@end

@implementation FakeDevice
- (NSString *)name {
    return @"Simulated Metal device";
}
- (uint64_t)registryID {
    return 1;
}
- (BOOL)hasUnifiedMemory {
    return YES;
}
- (uint64_t)recommendedMaxWorkingSetSize {
    return static_cast<uint64_t>(fake::settings().working_set);
}
- (NSUInteger)currentAllocatedSize {
    return static_cast<NSUInteger>(fake::counters().allocated);
}
- (NSUInteger)maxThreadgroupMemoryLength {
    return msl::threadgroup_limit;
}
- (NSUInteger)maxBufferLength {
    return static_cast<NSUInteger>(fake::settings().max_buffer_length);
}
- (MTLSize)maxThreadsPerThreadgroup {
    return MTLSizeMake(msl::max_threads, msl::max_threads, msl::max_threads);
}
- (BOOL)supportsFamily:(MTLGPUFamily)family {
    return family == MTLGPUFamilyMetal3 || family == MTLGPUFamilyApple7;
}
- (id<MTLCommandQueue>)newCommandQueue {
    return [self newCommandQueueWithMaxCommandBufferCount:64];
}
- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count {
    FakeQueue *queue = [FakeQueue new];
    queue->owner = self;
    queue->open = std::make_shared<std::atomic<int>>(0);
    queue->limit = count;
    return queue;
}
- (id<MTLBuffer>)bufferOf:(std::shared_ptr<fake::Store>)store options:(MTLResourceOptions)options {
    if (!store) return nil;
    FakeBuffer *buffer = [FakeBuffer new];
    store->is_private = (options & 0xf0) == MTLResourceStorageModePrivate;
    store->untracked = (options & 0x300) == MTLResourceHazardTrackingModeUntracked;
    buffer->store = std::move(store);
    buffer->owner = self;
    buffer->options = options;
    return buffer;
}
- (BOOL)canAllocate:(NSUInteger)length {
    if (!length) fake_report("a buffer of no bytes");
    if (length > self.maxBufferLength) fake_report("a buffer of " + std::to_string(length) + " bytes is over maxBufferLength");
    return length && length <= self.maxBufferLength;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
    return [self canAllocate:length] ? [self bufferOf:fake::Store::make(length) options:options] : nil;
}
- (id<MTLBuffer>)newBufferWithBytes:(const void *)pointer length:(NSUInteger)length options:(MTLResourceOptions)options {
    if (![self canAllocate:length]) return nil;
    id<MTLBuffer> buffer = [self bufferOf:fake::Store::make(length) options:options];
    memcpy(static_cast<FakeBuffer *>(buffer)->store->memory.base, pointer, length);
    return buffer;
}
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void *)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void *, NSUInteger))deallocator {
    if (reinterpret_cast<uintptr_t>(pointer) % fake::page || length % fake::page) {
        fake_report("newBufferWithBytesNoCopy needs a pointer and a length in whole pages of 16 KiB");
        return nil;
    }
    if (![self canAllocate:length]) return nil;
    if ((options & 0xf0) == MTLResourceStorageModePrivate) {
        fake_report("newBufferWithBytesNoCopy in private storage");
        return nil;
    }
    FakeBuffer *buffer = static_cast<FakeBuffer *>([self bufferOf:fake::Store::lend(static_cast<unsigned char *>(pointer), length)
                                                          options:options]);
    buffer->deallocator = deallocator;
    return buffer;
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error {
    std::string problem;
    auto loaded = fake::load_source(source.UTF8String, &problem);
    if (!loaded) {
        if (error) *error = fake_error(MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure, problem);
        return nil;
    }
    FakeLibrary *library = [FakeLibrary new];
    library->library = loaded;
    return library;
}
- (id<MTLLibrary>)newLibraryWithURL:(NSURL *)url error:(NSError **)error {
    if (error) *error = fake_error(MTLLibraryErrorDomain, MTLLibraryErrorFileNotFound, "the simulator has no compiled libraries");
    return nil;
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)object error:(NSError **)error {
    if (!object) {
        fake_report("a pipeline of no function");
        return nil;
    }
    const fake::Function &function = static_cast<FakeFunction *>(object)->function;
    FakePipeline *made = [FakePipeline new];
    uint32_t most = static_cast<uint32_t>(fake::settings().max_threads);
    if (!most && fake::settings().randomize) {
        // What a kernel that uses many registers gets. A device promises a warp's multiple, no more.
        const uint32_t choices[] = {1024, 896, 768, 640, 576, 512, 448, 384};
        most = choices[(std::hash<std::string>()(function.kernel->name) + static_cast<size_t>(fake::settings().seed)) % 8];
    }
    if (!most) most = msl::max_threads;
    if (function.kernel->max_threads) most = static_cast<uint32_t>(function.kernel->max_threads);
    made->pipeline = std::make_shared<fake::Pipeline>(fake::Pipeline{function, most});
    return made;
}
- (id<MTLFence>)newFence {
    FakeFence *made = [FakeFence new];
    made->fence = std::make_shared<fake::Fence>();
    return made;
}
- (id<MTLEvent>)newEvent {
    return [self newSharedEvent];
}
- (id<MTLSharedEvent>)newSharedEvent {
    FakeEvent *made = [FakeEvent new];
    made->event = std::make_shared<fake::Event>();
    return made;
}
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor *)descriptor error:(NSError **)error {
    if (fake::settings().residency_sets) return [FakeResidencySet new];
    if (error) *error = fake_error(@"MTLResidencySetErrorDomain", 1, "residency sets are not supported");
    return nil;
}
@end

extern "C" id<MTLDevice> MTLCreateSystemDefaultDevice(void) { return [FakeDevice new]; }
