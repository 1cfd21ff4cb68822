// Libraries, functions, pipelines.
#pragma once

@protocol MTLDevice;

@interface MTLCompileOptions : NSObject <NSCopying>
@property(readwrite, nonatomic) MTLLanguageVersion languageVersion;
@property(readwrite, nonatomic) BOOL fastMathEnabled;
@property(readwrite, nonatomic) MTLMathMode mathMode API_AVAILABLE_MACOS(15.0);
@end

@interface MTLFunctionConstantValues : NSObject <NSCopying>
- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index;
@end

@protocol MTLFunction <NSObject>
@property(readonly) NSString *name;
@end

@protocol MTLLibrary <NSObject>
@property(copy, atomic) NSString *label;
- (id<MTLFunction>)newFunctionWithName:(NSString *)functionName;
- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)constantValues
                                 error:(NSError **)error;
@end

@interface MTLComputePipelineDescriptor : NSObject <NSCopying>
@property(copy, nonatomic) NSString *label;
@property(readwrite, nonatomic, strong) id<MTLFunction> computeFunction;
@property(readwrite, nonatomic) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readwrite, nonatomic) BOOL threadGroupSizeIsMultipleOfThreadExecutionWidth;
@end

@protocol MTLComputePipelineState <MTLAllocation>
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger staticThreadgroupMemoryLength;
@end
