// Which shared object an address of code belongs to.
#pragma once

#include <string>

namespace msl {

void module_of(const void *code, const unsigned char **begin, const unsigned char **end);
std::string place_in_module(const void *code); // "{/path/lib.so+0x12}", for symbols.py to turn into a source line

} // namespace msl
