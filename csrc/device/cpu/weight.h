// The CPU device's Weight: float32 vectors, packed matrices, or a look-up table left in the file.
#pragma once

#include <vector>

#include "core/thread_pool.h"
#include "device/cpu/matmul.h"
#include "device/cpu/page_buffer.h"
#include "device/device.h"

namespace muser::cpu {

class CpuWeight final : public Weight {
  public:
    CpuWeight(const TensorView &tensor, WeightUse use, int lanes, ThreadPool &pool);

    static uint64_t bytes(const TensorView &tensor, WeightUse use, int lanes);
    static bool keeps_file(WeightUse use) { return use == WeightUse::lookup; }

    const float *vector() const;                   // WeightUse::vector
    const PackedMatrix &matrix() const;            // WeightUse::matrix, matrix_and_lookup
    void row(uint64_t index, float *out) const;    // WeightUse::lookup, matrix_and_lookup

  private:
    WeightUse use_;
    PageBuffer memory_;
    std::unique_ptr<float[]> vector_;
    PackedMatrix matrix_;
    gguf::BlockType type_;
    std::span<const std::byte> file_; // look-ups read the mapping
};

inline const CpuWeight &cpu_weight(const Weight &weight) { return static_cast<const CpuWeight &>(weight); }

} // namespace muser::cpu
