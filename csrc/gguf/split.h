// Names and checks of split files: NAME-00001-of-00003.gguf, with split.no, split.count, split.tensors.count.
#pragma once

#include <cstdint>
#include <string>

#include "gguf/part.h"

namespace muser::gguf {

// 1 when the file is whole. Refuses a file that says it is not the first part, or whose name does not
// have the form from which the other parts' names follow.
uint32_t split_count(const Part &first, const std::string &path);

// Path of part `number` (0-based) of `count`, beside the first part.
std::string split_path(const std::string &first_path, uint32_t number, uint32_t count);

// Refuses a part that belongs elsewhere.
void check_split_part(const Part &part, const std::string &path, uint32_t number, uint32_t count);

// Refuses a model whose parts together have another number of tensors than the first part says.
void check_split_total(const Part &first, const std::string &path, uint64_t n_tensors);

} // namespace muser::gguf
