// What all parts of the recorder know about the pass being recorded.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#import "device/metal/kernels.h"
#import "device/metal/kv_buffer.h"
#import "device/metal/pass_encoder.h"
#import "device/metal/workspace.h"

#include "../../../metal/args.h"

namespace muser::metal {

inline constexpr uint32_t kMaxSessions = 4; // planes bound to a kernel

struct PassState {
    PassState(Kernels &kernels, PassEncoder &encoder) : kernels(kernels), encoder(encoder) {}

    Kernels &kernels;
    PassEncoder &encoder;
    Workspace workspace;

    std::span<const Row> rows;
    std::span<const Row> planned; // rows, or those of the whole chain of which rows is the one of a link
    std::vector<const KvBuffer *> sessions; // of the rows, each once
    // A decode group: products by matvec kernels, whose inputs lie in lane order; keys split among threadgroups.
    // Otherwise tiles, whose results are the same bits for every number of rows.
    bool few = false;

    void begin(std::span<const Row> rows, PassKind kind); // fills workspace.rows()
    // The first link fills in what the host says about all of them: later, passes run that read it.
    void begin_link(std::span<const Row> chain, size_t link);
    uint32_t n_rows() const { return static_cast<uint32_t>(rows.size()); }
};

} // namespace muser::metal
