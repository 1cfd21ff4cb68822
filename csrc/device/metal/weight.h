// The Metal device's Weight: matrices and tables where the file has them, vectors as float32 copies.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#import "device/metal/gpu.h"

namespace muser::metal {

class MetalWeight final : public Weight {
  public:
    gguf::BlockType type = gguf::BlockType::F32;
    WeightUse use = WeightUse::vector;
    uint32_t row_bytes = 0;
    std::shared_ptr<Place> place; // filled in by FileBuffers::seal()
};

inline const MetalWeight &metal_weight(const Weight &weight) { return static_cast<const MetalWeight &>(weight); }
const MetalWeight &matrix_of(const Weight &weight); // throws Error{internal} for a vector
const Place &vector_of(const Weight &weight);       // float32 values

// Borrows the mapped file's pages: collects what the weights use, then makes one buffer of each run of pages, and
// several of a run that is longer than Metal allows.
class FileBuffers {
  public:
    explicit FileBuffers(Gpu &gpu) : gpu_(gpu) {}

    // These bytes of the mapping will be in a buffer; `place` (may be null) then says where.
    void add(std::span<const std::byte> bytes, std::shared_ptr<Place> place);
    // Makes the buffers of what was added since the last call. Throws Error{out_of_memory}.
    void seal();

  private:
    struct Part {
        uintptr_t begin, end;
        std::shared_ptr<Place> place;
    };
    void make(size_t first, size_t last);

    Gpu &gpu_;
    std::vector<Part> parts_; // not in a buffer yet
};

class WeightLoader {
  public:
    explicit WeightLoader(Gpu &gpu) : gpu_(gpu), files_(gpu) {}

    // Throws Error{unsupported_model} for a matrix whose rows are not whole runs of 16 values.
    std::unique_ptr<MetalWeight> load(const TensorView &tensor, WeightUse use);
    void seal() { files_.seal(); }

  private:
    void copy_vector(const TensorView &tensor, MetalWeight &weight) const;

    Gpu &gpu_;
    FileBuffers files_;
};

} // namespace muser::metal
