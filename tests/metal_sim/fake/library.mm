// Libraries, functions, pipelines.
#include "objects.h"

@implementation MTLCompileOptions
@synthesize languageVersion, fastMathEnabled, mathMode;
@end

@implementation MTLComputePipelineDescriptor
@synthesize label, computeFunction, maxTotalThreadsPerThreadgroup, threadGroupSizeIsMultipleOfThreadExecutionWidth;
@end

@interface MTLFunctionConstantValues () {
  @public
    std::vector<fake::ConstantStorage> values;
}
@end
@implementation MTLFunctionConstantValues
- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index {
    size_t bytes = 4;
    if (type == MTLDataTypeBool) bytes = 1;
    if (type == MTLDataTypeShort || type == MTLDataTypeUShort || type == MTLDataTypeHalf) bytes = 2;
    const auto *first = static_cast<const unsigned char *>(value);
    for (auto &old : values)
        if (old.index == static_cast<int>(index)) {
            old = {static_cast<int>(index), static_cast<int>(type), {first, first + bytes}};
            return;
        }
    values.push_back({static_cast<int>(index), static_cast<int>(type), {first, first + bytes}});
}
@end

@implementation FakeFunction
- (NSString *)name {
    return [NSString stringWithUTF8String:function.kernel->name];
}
@end

@implementation FakeLibrary
@synthesize label;
- (id<MTLFunction>)newFunctionWithName:(NSString *)name {
    return [self newFunctionWithName:name constantValues:nil error:nil];
}
- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)constants
                                 error:(NSError **)error {
    const msl::Kernel *kernel = library->find(name.UTF8String);
    std::string problem = kernel ? "" : std::string("no function ") + name.UTF8String;
    FakeFunction *made = [FakeFunction new];
    made->function.library = library;
    made->function.kernel = kernel;
    if (constants) made->function.values = constants->values;
    for (const auto &value : made->function.values)
        for (const msl::FunctionConstant *c = library->constants; c->name; ++c)
            if (c->index == value.index && c->data_type != value.data_type)
                problem = std::string("function constant ") + c->name + " has another type";
    if (problem.empty()) return made;
    if (error) *error = fake_error(MTLLibraryErrorDomain, MTLLibraryErrorFunctionNotFound, problem);
    return nil;
}
@end

@implementation FakePipeline
- (NSUInteger)maxTotalThreadsPerThreadgroup {
    return pipeline->max_threads;
}
- (NSUInteger)threadExecutionWidth {
    return msl::simd_width;
}
- (NSUInteger)staticThreadgroupMemoryLength {
    return 0; // known only while it runs, and checked then
}
- (NSUInteger)allocatedSize {
    return 0;
}
@end
