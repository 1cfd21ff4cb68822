// Queues, command buffers, encoders, fences and events.
#pragma once

@protocol MTLDevice, MTLCommandBuffer;

typedef void (^MTLCommandBufferHandler)(id<MTLCommandBuffer> buffer);

@protocol MTLFence <NSObject>
@property(copy, atomic) NSString *label;
@end
@protocol MTLEvent <NSObject>
@property(copy, atomic) NSString *label;
@end
@protocol MTLSharedEvent <MTLEvent>
@property(readwrite) uint64_t signaledValue;
- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds; // macOS 12
@end

@protocol MTLCommandEncoder <NSObject>
@property(copy, atomic) NSString *label;
- (void)endEncoding;
- (void)pushDebugGroup:(NSString *)string;
- (void)popDebugGroup;
@end

@protocol MTLComputeCommandEncoder <MTLCommandEncoder>
@property(readonly) MTLDispatchType dispatchType;
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
- (void)dispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)memoryBarrierWithResources:(const id<MTLResource> [])resources count:(NSUInteger)count;
- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end

@protocol MTLBlitCommandEncoder <MTLCommandEncoder>
- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destinationBuffer
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size;
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value;
@end

@protocol MTLCommandBuffer <NSObject>
@property(copy, atomic) NSString *label;
@property(readonly) BOOL retainedReferences;
@property(readonly) MTLCommandBufferStatus status;
@property(readonly) NSError *error;
@property(readonly) NSTimeInterval kernelStartTime, kernelEndTime, GPUStartTime, GPUEndTime;
- (void)enqueue;
- (void)commit;
- (void)addScheduledHandler:(MTLCommandBufferHandler)block;
- (void)addCompletedHandler:(MTLCommandBufferHandler)block;
- (void)waitUntilScheduled;
- (void)waitUntilCompleted;
- (id<MTLComputeCommandEncoder>)computeCommandEncoder;
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)dispatchType;
- (id<MTLBlitCommandEncoder>)blitCommandEncoder;
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)useResidencySet:(id<MTLResidencySet>)residencySet API_AVAILABLE_MACOS(15.0);
@end

@protocol MTLCommandQueue <NSObject>
@property(copy, atomic) NSString *label;
@property(readonly) id<MTLDevice> device;
- (id<MTLCommandBuffer>)commandBuffer;
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
- (void)addResidencySet:(id<MTLResidencySet>)residencySet API_AVAILABLE_MACOS(15.0);
- (void)removeResidencySet:(id<MTLResidencySet>)residencySet API_AVAILABLE_MACOS(15.0);
@end
