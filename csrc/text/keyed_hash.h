// A hash that nobody outside of the process can foretell, so that a file cannot choose names that collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace muser::text {

uint64_t keyed_hash(std::string_view text);
uint64_t keyed_hash(uint64_t value);

} // namespace muser::text
