// The CPU device's Weight: float32 vectors, packed matrices, or a look-up table left in the file.
#pragma once

#include <memory>

#include "device/cpu/matmul.h"
#include "device/cpu/page_buffer.h"
#include "device/device.h"

namespace muser::cpu {

class CpuWeight final : public Weight {
  public:
    CpuWeight(const TensorView &tensor, std::unique_ptr<float[]> vector);
    explicit CpuWeight(const TensorView &lookup);
    // `memory` holds the matrix, and other ones: it lives until the last of its weights goes.
    CpuWeight(const PackedMatrix &matrix, std::shared_ptr<const PageBuffer> memory);

    const float *vector() const;                   // WeightUse::vector
    const PackedMatrix &matrix() const;            // WeightUse::matrix, head, head_and_lookup
    void row(uint64_t index, float *out) const;    // WeightUse::lookup, head_and_lookup
    bool has_bounds() const { return matrix_.low != nullptr && bounded_; } // MatmulKernels::bounds
    void refuse_bounds() { bounded_ = false; } // before the weight is used

  private:
    gguf::BlockType type_;
    std::unique_ptr<float[]> vector_;
    std::span<const std::byte> file_; // look-ups read the mapping
    PackedMatrix matrix_;
    bool bounded_ = true;
    std::shared_ptr<const PageBuffer> memory_;
};

inline const CpuWeight &cpu_weight(const Weight &weight) { return static_cast<const CpuWeight &>(weight); }

} // namespace muser::cpu
