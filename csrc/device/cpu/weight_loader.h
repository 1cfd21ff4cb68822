// From the file to the CPU device's weights: vectors are dequantized, look-ups stay where they are, all matrices
// together are packed into one allocation by all threads in one go.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "device/device.h"

namespace muser::cpu {

// Of the weight's own memory: a matrix takes whole pages of the common allocation.
uint64_t weight_bytes(const TensorView &tensor, WeightUse use, int lanes);

inline bool keeps_file(WeightUse use) { return use == WeightUse::lookup; }

// In the order of the sources. Throws Error{out_of_memory}, Error{io}.
std::vector<std::unique_ptr<Weight>> load_weights(std::span<const WeightSource> sources, int lanes, ThreadPool &pool);

} // namespace muser::cpu
