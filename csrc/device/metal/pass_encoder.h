// One pass as Metal sees it: one command buffer with one compute encoder, whose dispatches run at once unless a barrier
// stands between them. The encoder puts a barrier where a dispatch reads or overwrites what one since the last barrier
// wrote, or overwrites what one read, and nowhere else.
#pragma once

#import <Metal/Metal.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "core/wait.h"
#import "device/metal/gpu.h"
#import "device/metal/kernels.h"

namespace muser::metal {

// A set of the things that dispatches of a pass hand to each other: one bit each (workspace.h numbers them).
using Resources = uint32_t;

struct PassLedger {
    uint32_t dispatches = 0;
    uint32_t barriers = 0;
};

class PassEncoder {
  public:
    explicit PassEncoder(const Gpu &gpu) : gpu_(gpu) {}
    ~PassEncoder() { abandon(); }
    PassEncoder(const PassEncoder &) = delete;
    PassEncoder &operator=(const PassEncoder &) = delete;

    // link: after the passes that are committed and not waited for, instead of when there is none.
    void begin(bool link = false);
    void abandon(); // what was encoded is dropped
    bool is_open() const { return encoder_ != nil; }

    void use(const Kernel &kernel);
    template <class T> void args(const T &value) { [encoder_ setBytes:&value length:sizeof value atIndex:0]; }
    void bind(uint32_t index, const Place &place) { [encoder_ setBuffer:place.buffer offset:place.offset atIndex:index]; }
    void threadgroup_memory(uint32_t bytes) { [encoder_ setThreadgroupMemoryLength:(bytes + 15) / 16 * 16 atIndex:0]; }
    // `grid` threadgroups of `threads` threads in a row.
    void dispatch(MTLSize grid, uint32_t threads, Resources reads, Resources writes);

    // Throws Error{timeout} when the GPU has not answered by the deadline (it may still be writing then), and
    // Error{device} with Metal's text when the pass failed. Returns the seconds that the GPU worked.
    double commit_and_wait(Deadline deadline);
    void commit();
    double wait_oldest(Deadline deadline); // of those committed; throws like commit_and_wait()
    // Whether every pass has ended, after at most this long: before memory goes that a late one may still use.
    bool settle(std::chrono::milliseconds longest);

    PassLedger ledger() const { return ledger_; } // of the pass begun last

  private:
    struct Completion; // shared with the handler, which may come after the waiter has left

    const Gpu &gpu_;
    id<MTLCommandBuffer> commands_ = nil;
    id<MTLComputeCommandEncoder> encoder_ = nil;
    id<MTLFence> fence_ = nil; // from each pass to the next, where the host does not wait between
    std::deque<std::shared_ptr<Completion>> in_flight_; // oldest first; stays when its deadline passed
    Resources read_ = 0, written_ = 0; // since the last barrier
    PassLedger ledger_;
};

} // namespace muser::metal
