// The kernels' source text, packaged into the library (embed.cmake) and compiled by Metal at first use.
#pragma once

#include <string>
#include <string_view>

namespace muser::metal {

// metal/NAME.metal with its includes in place, each once.
std::string kernel_source(std::string_view name);

} // namespace muser::metal
