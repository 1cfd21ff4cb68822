// Buffers and residency sets.
#pragma once

@protocol MTLDevice;

@protocol MTLAllocation <NSObject>
@property(readonly) NSUInteger allocatedSize;
@end

@protocol MTLResource <MTLAllocation>
@property(copy, atomic) NSString *label;
@property(readonly) id<MTLDevice> device;
@property(readonly) MTLStorageMode storageMode;
@property(readonly) MTLHazardTrackingMode hazardTrackingMode;
@property(readonly) MTLResourceOptions resourceOptions;
@end

@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
- (void *)contents;
@end

API_AVAILABLE_MACOS(15.0)
@interface MTLResidencySetDescriptor : NSObject <NSCopying>
@property(copy, nonatomic) NSString *label;
@property(nonatomic) NSUInteger initialCapacity;
@end

API_AVAILABLE_MACOS(15.0)
@protocol MTLResidencySet <NSObject>
@property(readonly) NSUInteger allocationCount;
@property(readonly) uint64_t allocatedSize;
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllAllocations;
- (BOOL)containsAllocation:(id<MTLAllocation>)anAllocation;
- (void)commit;
- (void)requestResidency;
- (void)endResidency;
@end
