// The fake's classes, as its own files see each other. Each is what Metal's protocol of the same name promises.
#pragma once

#import <Metal/Metal.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpu.h"

void fake_report(const std::string &text); // a rule of Metal that the host broke
NSError *fake_error(NSString *domain, NSInteger code, const std::string &text);

@interface FakeDevice : NSObject <MTLDevice>
@end

@interface FakeBuffer : NSObject <MTLBuffer> {
  @public
    std::shared_ptr<fake::Store> store;
    id<MTLDevice> owner;
    MTLResourceOptions options;
    void (^deallocator)(void *, NSUInteger);
}
@end

@interface FakeLibrary : NSObject <MTLLibrary> {
  @public
    std::shared_ptr<fake::Library> library;
}
@end
@interface FakeFunction : NSObject <MTLFunction> {
  @public
    fake::Function function;
}
@end
@interface FakePipeline : NSObject <MTLComputePipelineState> {
  @public
    std::shared_ptr<fake::Pipeline> pipeline;
}
@end

@interface FakeFence : NSObject <MTLFence> {
  @public
    std::shared_ptr<fake::Fence> fence;
}
@end
@interface FakeEvent : NSObject <MTLSharedEvent> {
  @public
    std::shared_ptr<fake::Event> event;
}
@end

@interface FakeResidencySet : NSObject <MTLResidencySet>
- (void)mustBeCommitted;
@end

@interface FakeQueue : NSObject <MTLCommandQueue> {
  @public
    id<MTLDevice> owner;
    std::shared_ptr<std::atomic<int>> open; // command buffers that are made and not completed
    NSUInteger limit;
}
@end

@interface FakeCommandBuffer : NSObject <MTLCommandBuffer> {
  @public
    std::shared_ptr<std::atomic<int>> open;
    bool retained, has_encoder;
    std::unique_ptr<fake::Submission> submission;
    std::set<id> kept; // what must live until completion
}
- (void)uses:(FakeBuffer *)buffer;
- (void)keep:(id)object;
@end

@interface FakeComputeEncoder : NSObject <MTLComputeCommandEncoder>
- (instancetype)initWithBuffer:(FakeCommandBuffer *)buffer type:(MTLDispatchType)type;
@end
@interface FakeBlitEncoder : NSObject <MTLBlitCommandEncoder>
- (instancetype)initWithBuffer:(FakeCommandBuffer *)buffer;
@end
