// Which type each tensor of a model gets under one of llama-quantize's names ("Q4_K_M"): most matrices the type in the name,
// those that matter most a larger one. The rules are llama.cpp's, so that files have the published sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gguf/file.h"

namespace muser::quantize {

struct Mix {
    std::string_view name;
    gguf::BlockType base;
    uint32_t file_type; // general.file_type in GGUF
};

// All mixes, in the order of their size.
std::span<const Mix> mixes();

// Throws Error{parameter} with the list.
const Mix &mix_named(std::string_view name);

// Whether a tensor is quantized at all: a matrix called "...weight" that is no norm, router or position table.
bool is_matrix(const gguf::Tensor &tensor);

// The type of every tensor of the model, in its order. What is no matrix keeps its own.
std::vector<gguf::BlockType> types_of(const gguf::Model &model, const Mix &mix);

} // namespace muser::quantize
