// Encoders: what is bound now, and the commands that are made of it.
#include "objects.h"

#include "settings.h"

namespace {

std::string text(MTLSize size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height) + "x" + std::to_string(size.depth);
}
msl::Extent extent(MTLSize size) {
    return {static_cast<uint32_t>(size.width), static_cast<uint32_t>(size.height), static_cast<uint32_t>(size.depth)};
}

} // namespace

@implementation FakeComputeEncoder {
    FakeCommandBuffer *commandBuffer;
    fake::Dispatch now;
    bool concurrent, ended;
    uint32_t generation; // counts the pipelines that were set
}
@synthesize label;
- (instancetype)initWithBuffer:(FakeCommandBuffer *)buffer type:(MTLDispatchType)type {
    commandBuffer = buffer;
    commandBuffer->has_encoder = true;
    concurrent = type == MTLDispatchTypeConcurrent;
    ++fake::counters().encoders;
    fake::trace(concurrent ? "encoder concurrent" : "encoder serial");
    [self add:fake::BeginEncoder{concurrent}];
    return self;
}
- (MTLDispatchType)dispatchType {
    return concurrent ? MTLDispatchTypeConcurrent : MTLDispatchTypeSerial;
}
- (void)add:(fake::Command)command {
    if (ended || !commandBuffer->submission)
        fake_report("a command after endEncoding");
    else
        commandBuffer->submission->commands.push_back(std::move(command));
}
- (bool)canBind:(NSUInteger)index {
    if (ended) fake_report("an argument is set after endEncoding");
    if (index >= msl::max_bindings) fake_report("buffer index " + std::to_string(index) + " is over 30");
    return !ended && index < msl::max_bindings;
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
    if (!state) {
        fake_report("a nil pipeline is set");
        return;
    }
    [commandBuffer keep:state];
    now.pipeline = static_cast<FakePipeline *>(state)->pipeline;
    ++generation;
}
- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
    if (![self canBind:index]) return;
    if (length > 4096) fake_report("setBytes of more than 4096 bytes");
    if (!length) fake_report("setBytes of no bytes");
    const auto *first = static_cast<const unsigned char *>(bytes);
    now.buffers[index] = {nullptr, {first, first + length}, 0, generation};
    fake::counters().set_bytes += static_cast<int64_t>(length);
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
    if (![self canBind:index]) return;
    now.buffers[index] = {};
    if (!buffer) return;
    if (offset >= buffer.length) {
        fake_report("offset " + std::to_string(offset) + " is past the end of a buffer of " + std::to_string(buffer.length));
        return;
    }
    [commandBuffer uses:static_cast<FakeBuffer *>(buffer)];
    now.buffers[index].store = static_cast<FakeBuffer *>(buffer)->store;
    now.buffers[index].offset = offset;
    now.buffers[index].generation = generation;
}
- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
    if (![self canBind:index]) return;
    fake::Bound &bound = now.buffers[index];
    if (!bound.store)
        fake_report("setBufferOffset where no buffer is set");
    else if (offset >= bound.store->memory.bytes)
        fake_report("offset " + std::to_string(offset) + " is past the end of a buffer");
    else
        bound.offset = offset;
    bound.generation = generation;
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
    if (![self canBind:index]) return;
    if (length % 16) fake_report("threadgroup memory of " + std::to_string(length) + " bytes: no multiple of 16");
    now.threadgroup_bytes[index] = length;
}
- (void)dispatch:(MTLSize)grid group:(MTLSize)group threads:(bool)of_threads {
    if (!now.pipeline) {
        fake_report("a dispatch without a pipeline");
        return;
    }
    const NSUInteger threads = group.width * group.height * group.depth;
    if (threads > now.pipeline->max_threads) {
        fake_report(std::to_string(threads) + " threads a threadgroup of " + now.pipeline->function.kernel->name +
                    ", whose pipeline allows " + std::to_string(now.pipeline->max_threads));
        return;
    }
    now.grid = extent(grid);
    now.group = extent(group);
    now.grid_of_threads = of_threads;
    ++fake::counters().dispatches;
    [self count:grid group:group];
    [self add:now];
}
- (void)count:(MTLSize)grid group:(MTLSize)group {
    std::string line = "dispatch " + std::string(now.pipeline->function.kernel->name) + " " + text(grid) + " " + text(group);
    const msl::Kernel &kernel = *now.pipeline->function.kernel;
    for (int i = 0; i < kernel.parameter_count; ++i) {
        if (kernel.parameters[i].source != msl::Source::buffer) continue;
        const auto index = static_cast<size_t>(kernel.parameters[i].index);
        const fake::Bound &bound = now.buffers[index];
        const bool is_set = bound.store || !bound.bytes.empty();
        if (is_set && bound.generation != generation && fake::settings().strict_bindings)
            fake_report(std::string(kernel.name) + ": buffer(" + std::to_string(index) + ") is still what an earlier kernel got");
        if (!bound.store) continue;
        fake::counters().bound_bytes += static_cast<int64_t>(bound.store->memory.bytes - bound.offset);
        line += " " + std::to_string(index) + ":" + std::to_string(bound.store->id) + "@" + std::to_string(bound.offset) + "/" +
                std::to_string(bound.store->memory.bytes);
    }
    fake::trace(line);
}
- (void)dispatchThreadgroups:(MTLSize)grid threadsPerThreadgroup:(MTLSize)group {
    [self dispatch:grid group:group threads:false];
}
- (void)dispatchThreads:(MTLSize)grid threadsPerThreadgroup:(MTLSize)group {
    [self dispatch:grid group:group threads:true];
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
    if (!(scope & MTLBarrierScopeBuffers)) fake_report("a memory barrier that does not cover buffers");
    ++fake::counters().barriers;
    fake::trace("barrier");
    [self add:fake::Barrier{(scope & MTLBarrierScopeBuffers) != 0, {}}];
}
- (void)memoryBarrierWithResources:(const id<MTLResource> [])resources count:(NSUInteger)count {
    fake::Barrier barrier{false, {}};
    for (NSUInteger i = 0; i < count; ++i) barrier.stores.push_back(static_cast<FakeBuffer *>(resources[i])->store);
    ++fake::counters().barriers;
    fake::trace("barrier resources " + std::to_string(count));
    [self add:std::move(barrier)];
}
- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
    [commandBuffer uses:static_cast<FakeBuffer *>(resource)];
}
- (void)updateFence:(id<MTLFence>)fence {
    [self add:fake::UpdateFence{static_cast<FakeFence *>(fence)->fence}];
}
- (void)waitForFence:(id<MTLFence>)fence {
    [self add:fake::WaitFence{static_cast<FakeFence *>(fence)->fence}];
}
- (void)pushDebugGroup:(NSString *)string {
    fake::trace(std::string("group ") + string.UTF8String);
}
- (void)popDebugGroup {
    fake::trace("end group");
}
- (void)endEncoding {
    if (ended) fake_report("endEncoding twice");
    if (!ended) [self add:fake::EndEncoder{}];
    ended = true;
    commandBuffer->has_encoder = false;
}
- (void)dealloc {
    if (!ended) fake_report("an encoder is released without endEncoding");
}
@end

@implementation FakeBlitEncoder {
    FakeCommandBuffer *commandBuffer;
    bool ended;
}
@synthesize label;
- (instancetype)initWithBuffer:(FakeCommandBuffer *)buffer {
    commandBuffer = buffer;
    commandBuffer->has_encoder = true;
    ++fake::counters().encoders;
    fake::trace("encoder blit");
    return self;
}
- (std::shared_ptr<fake::Store>)store:(id<MTLBuffer>)buffer offset:(NSUInteger)offset bytes:(NSUInteger)bytes {
    if (ended || !commandBuffer->submission) fake_report("a command after endEncoding");
    if (offset + bytes > buffer.length) fake_report("a copy past the end of a buffer");
    if (ended || !commandBuffer->submission || offset + bytes > buffer.length) return nullptr;
    [commandBuffer uses:static_cast<FakeBuffer *>(buffer)];
    return static_cast<FakeBuffer *>(buffer)->store;
}
- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
    auto from = [self store:source offset:sourceOffset bytes:size];
    auto to = [self store:destination offset:destinationOffset bytes:size];
    if (!from || !to) return;
    ++fake::counters().copies;
    fake::trace("copy " + std::to_string(size));
    commandBuffer->submission->commands.push_back(fake::Copy{from, to, sourceOffset, destinationOffset, size});
}
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
    auto to = [self store:buffer offset:range.location bytes:range.length];
    if (!to) return;
    ++fake::counters().copies;
    fake::trace("fill " + std::to_string(range.length));
    commandBuffer->submission->commands.push_back(fake::Fill{to, range.location, range.length, value});
}
- (void)pushDebugGroup:(NSString *)string {
}
- (void)popDebugGroup {
}
- (void)endEncoding {
    if (ended) fake_report("endEncoding twice");
    ended = true;
    commandBuffer->has_encoder = false;
    if (commandBuffer->submission) commandBuffer->submission->commands.push_back(fake::EndEncoder{});
}
- (void)dealloc {
    if (!ended) fake_report("an encoder is released without endEncoding");
}
@end
