// Barriers by bookkeeping; waiting by a condition variable that Metal's completion handler signals.
#import "device/metal/pass_encoder.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "core/error.h"
#include "device/metal/require.h"

namespace muser::metal {

struct PassEncoder::Completion {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    double seconds = 0;
    std::string error;

    bool wait(Deadline deadline) {
        std::unique_lock lock(mutex);
        const auto is_done = [this] { return done; };
        if (deadline)
            return changed.wait_until(lock, *deadline, is_done);
        changed.wait(lock, is_done);
        return true;
    }
};

void PassEncoder::begin(bool link) {
    abandon();
    require(link || in_flight_.empty(), "a pass is begun after one that never ended");
    @autoreleasepool {
        commands_ = [gpu_.queue() commandBuffer];
        encoder_ = [commands_ computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
    }
    if (!encoder_)
        throw Error(ErrorCode::device, "Metal gave no command encoder");
    if (!fence_)
        fence_ = [gpu_.device() newFence];
    if (!in_flight_.empty())
        [encoder_ waitForFence:fence_];
    read_ = written_ = 0;
    ledger_ = {};
}

void PassEncoder::abandon() {
    [encoder_ endEncoding]; // Metal aborts where an open encoder is released
    encoder_ = nil;
    commands_ = nil;
}

void PassEncoder::use(const Kernel &kernel) { [encoder_ setComputePipelineState:kernel.state]; }

void PassEncoder::dispatch(MTLSize grid, uint32_t threads, Resources reads, Resources writes) {
    if ((written_ & (reads | writes)) || (read_ & writes)) {
        [encoder_ memoryBarrierWithScope:MTLBarrierScopeBuffers];
        ++ledger_.barriers;
        read_ = written_ = 0;
    }
    read_ |= reads;
    written_ |= writes;
    ++ledger_.dispatches;
    [encoder_ dispatchThreadgroups:grid threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
}

double PassEncoder::commit_and_wait(Deadline deadline) {
    commit();
    return wait_oldest(deadline);
}

void PassEncoder::commit() {
    require(is_open(), "a commit without a pass");
    auto completion = std::make_shared<Completion>();
    @autoreleasepool {
        [encoder_ updateFence:fence_];
        [encoder_ endEncoding];
        encoder_ = nil;
        [commands_ addCompletedHandler:^(id<MTLCommandBuffer> done) {
            const std::lock_guard lock(completion->mutex);
            if (done.status != MTLCommandBufferStatusCompleted)
                completion->error = text_of(done.error);
            completion->seconds = done.GPUEndTime - done.GPUStartTime;
            completion->done = true;
            completion->changed.notify_all();
        }];
        [commands_ commit];
        commands_ = nil;
    }
    in_flight_.push_back(completion);
}

double PassEncoder::wait_oldest(Deadline deadline) {
    require(!in_flight_.empty(), "a wait without a pass");
    const std::shared_ptr<Completion> completion = in_flight_.front();
    if (!completion->wait(deadline))
        throw Error(ErrorCode::timeout, "the GPU did not finish a forward pass before the deadline");
    in_flight_.pop_front();
    if (!completion->error.empty())
        throw Error(ErrorCode::device, "Metal: " + completion->error);
    return completion->seconds;
}

bool PassEncoder::settle(std::chrono::milliseconds longest) {
    const Deadline deadline = Clock::now() + longest;
    return std::all_of(in_flight_.begin(), in_flight_.end(), [&](const auto &pass) { return pass->wait(deadline); });
}

} // namespace muser::metal
