// Writes a model with other tensor types to a new file: tensor by tensor, piece by piece, so that memory is bounded
// whatever the size of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gguf/file.h"

namespace muser::quantize {

struct Job {
    const gguf::Model *model;
    std::string path;                       // of the output; one of the model's own files is refused
    std::span<const gguf::BlockType> types; // of each tensor
    uint32_t file_type;
    int threads;
    // Called between pieces with the values done and in all; throws to abandon the job.
    std::function<void(uint64_t done, uint64_t all)> progress;
};

// The size of the file. A tensor that has its type already is copied; others are dequantized first.
// Throws Error{parameter}: the output is an input, a type does not fit its rows or cannot be made;
// Error{io}; Error{model_format}: a weight that its type cannot hold. No trace is left of a job that failed.
uint64_t run(const Job &job);

} // namespace muser::quantize
