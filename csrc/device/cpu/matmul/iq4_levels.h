// The 16 levels that a nibble of IQ4_NL and IQ4_XS stands for; part of the file format.
#pragma once

#include <cstdint>

namespace muser::cpu {

inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

} // namespace muser::cpu
