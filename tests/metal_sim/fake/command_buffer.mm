// Queues and command buffers: from making to completion.
#include "objects.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "settings.h"

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

@implementation FakeQueue
@synthesize label;
- (id<MTLDevice>)device {
    return owner;
}
- (id<MTLCommandBuffer>)make:(bool)retained {
    if (static_cast<NSUInteger>(*open) >= limit)
        fake_report("more than " + std::to_string(limit) + " command buffers are open: Metal would block here");
    ++fake::counters().command_buffers;
    fake::trace(retained ? "command_buffer" : "command_buffer unretained");
    FakeCommandBuffer *made = [FakeCommandBuffer new];
    made->open = open;
    ++*open;
    made->retained = retained;
    return made;
}
- (id<MTLCommandBuffer>)commandBuffer {
    return [self make:true];
}
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
    return [self make:false];
}
- (void)addResidencySet:(id<MTLResidencySet>)set {
    [static_cast<FakeResidencySet *>(set) mustBeCommitted];
}
- (void)removeResidencySet:(id<MTLResidencySet>)set {
}
@end

@implementation FakeCommandBuffer {
    std::mutex mutex;
    std::condition_variable changed;
    MTLCommandBufferStatus state;
    NSError *failure;
    std::vector<MTLCommandBufferHandler> scheduled, completed;
    double start, end;
}
@synthesize label;
- (instancetype)init {
    submission = std::make_unique<fake::Submission>();
    return self;
}
- (BOOL)retainedReferences {
    return retained;
}
- (MTLCommandBufferStatus)status {
    const std::lock_guard lock(mutex);
    return state;
}
- (NSError *)error {
    const std::lock_guard lock(mutex);
    return failure;
}
- (NSTimeInterval)kernelStartTime {
    return start;
}
- (NSTimeInterval)kernelEndTime {
    return end;
}
- (NSTimeInterval)GPUStartTime {
    return start;
}
- (NSTimeInterval)GPUEndTime {
    return end;
}
- (bool)canEncode:(const char *)what {
    if (self.status >= MTLCommandBufferStatusCommitted) fake_report(std::string(what) + " after commit");
    if (has_encoder) fake_report(std::string(what) + " while an encoder is open");
    return self.status < MTLCommandBufferStatusCommitted;
}
- (void)enqueue {
    const std::lock_guard lock(mutex);
    if (state == MTLCommandBufferStatusNotEnqueued) state = MTLCommandBufferStatusEnqueued;
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
    return [self computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type {
    if (![self canEncode:"an encoder is made"]) return nil;
    return [[FakeComputeEncoder alloc] initWithBuffer:self type:type];
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
    return [self canEncode:"an encoder is made"] ? [[FakeBlitEncoder alloc] initWithBuffer:self] : nil;
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
    if (![self canEncode:"an event is signalled"]) return;
    [self keep:event];
    submission->commands.push_back(fake::SignalEvent{static_cast<FakeEvent *>(event)->event, value});
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
    if (![self canEncode:"an event is waited for"]) return;
    [self keep:event];
    submission->commands.push_back(fake::WaitEvent{static_cast<FakeEvent *>(event)->event, value});
}
- (void)useResidencySet:(id<MTLResidencySet>)set {
    [static_cast<FakeResidencySet *>(set) mustBeCommitted];
    [self keep:set];
}
- (void)keep:(id)object {
    if (retained) kept.insert(object);
}
- (void)uses:(FakeBuffer *)buffer {
    [self keep:buffer];
    auto &stores = submission->stores;
    if (std::find(stores.begin(), stores.end(), buffer->store) == stores.end()) stores.push_back(buffer->store);
}
- (void)addScheduledHandler:(MTLCommandBufferHandler)block {
    if (self.status >= MTLCommandBufferStatusCommitted) fake_report("a handler is added after commit");
    scheduled.push_back(block);
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
    if (self.status >= MTLCommandBufferStatusCommitted) fake_report("a handler is added after commit");
    completed.push_back(block);
}
- (void)commit {
    if (has_encoder) fake_report("commit while an encoder is open");
    {
        const std::lock_guard lock(mutex);
        if (state >= MTLCommandBufferStatusCommitted) {
            fake_report("a command buffer is committed twice");
            return;
        }
        state = MTLCommandBufferStatusCommitted;
    }
    FakeCommandBuffer *me = self;
    submission->scheduled = [me] { [me becameScheduled]; };
    submission->completed = [me](int code, const std::string &text) { [me completedWithCode:code text:text]; };
    fake::submit(std::move(submission));
}
- (void)becameScheduled {
    @autoreleasepool {
        [self become:MTLCommandBufferStatusScheduled];
        start = now();
        [self call:scheduled];
    }
}
- (void)completedWithCode:(int)code text:(const std::string &)text {
    @autoreleasepool {
        end = now();
        if (code) {
            NSError *error = fake_error(MTLCommandBufferErrorDomain, code, text);
            const std::lock_guard lock(mutex);
            failure = error;
        }
        --*open;
        kept.clear();
        [self become:code ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted];
        [self call:completed];
    }
}
- (void)become:(MTLCommandBufferStatus)status {
    const std::lock_guard lock(mutex);
    state = status;
    changed.notify_all();
}
- (void)call:(std::vector<MTLCommandBufferHandler> &)handlers {
    for (MTLCommandBufferHandler handler : handlers) {
        FakeCommandBuffer *me = self;
        fake::call_later([me, handler] {
            @autoreleasepool {
                handler(me);
            }
        });
    }
    handlers.clear();
}
- (void)waitFor:(MTLCommandBufferStatus)status {
    if (fake::on_handler_thread()) fake_report("a handler waits for a command buffer: no handler can run meanwhile");
    std::unique_lock lock(mutex);
    if (state < MTLCommandBufferStatusCommitted) {
        fake_report("a wait for a command buffer that is not committed");
        return;
    }
    changed.wait(lock, [&] { return state >= status; });
}
- (void)waitUntilScheduled {
    [self waitFor:MTLCommandBufferStatusScheduled];
}
- (void)waitUntilCompleted {
    [self waitFor:MTLCommandBufferStatusCompleted];
}
- (void)dealloc {
    if (state < MTLCommandBufferStatusCommitted) --*open; // never committed: allowed
}
@end
