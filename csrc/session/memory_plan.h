// Every byte that a model will take, stated before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>

#include "device/device.h"
#include "model/hparams.h"
#include "model/weights.h"

namespace muser {

struct MemoryPlan {
    uint32_t context = 0; // rows a slot can hold
    int slots = 0;
    KvType kv_type = KvType::f16;
    uint64_t weights = 0;      // the device's own copies
    uint64_t mapped = 0;       // weights read from the file's mapping: page cache, not counted in total
    uint64_t kv_per_slot = 0;  // reserved; committed as rows are first written
    uint64_t staging = 0;      // the session in which a shifted context is built; 0 without one
    uint64_t workspace = 0;    // activations and logits of one pass
    uint64_t retained = 0;     // every slot's retained logits
    uint64_t total = 0;        // weights + slots * kv_per_slot + staging + workspace + retained
    uint64_t available = 0;    // what it was compared with
    uint64_t prefix_cache = 0; // most bytes of evicted prefixes (prefix_store.h); taken as they come, not in total
    uint32_t growing_planes = 0, growing_rows = 0; // of one slot
    uint32_t ring_planes = 0, ring_rows = 0;
    uint64_t plane_row_bytes = 0; // keys and values of one row of one plane
};

inline constexpr uint32_t kMaxLogitRows = 16; // rows of one pass whose logits come back
inline constexpr uint32_t kMaxTaps = 1;       // of one pass: the last residual, for embeddings

// context empty: the most that fits, at most the model's own. Throws Error{parameter} for a context beyond
// the model's, Error{out_of_memory} with both numbers when it does not fit. prefix_cache empty: a quarter of what is
// left; more than is left does not fit either.
MemoryPlan plan_memory(const HParams &hparams, const WeightTable &table, const Device &device, int slots,
                       std::optional<uint32_t> context, KvType kv_type, uint64_t memory_limit,
                       std::optional<uint64_t> prefix_cache = {}, bool staging = false);

} // namespace muser
