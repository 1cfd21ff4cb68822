// The instruction-set levels the CPU kernels are compiled for. All levels give the same bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muser::cpu {

enum class Level { portable, avx2, avxvnni, avx512, amx, neon, i8mm };

std::string_view level_name(Level level);
std::vector<Level> available_levels(); // what this build has and this machine can run, slowest first
// The fastest available level, or the one named by MUSER_CPU_LEVEL (for tests).
// Throws Error{parameter} when the variable names an unknown or unavailable level.
Level choose_level();
std::string cpu_features(); // one line for people: brand, features that matter, level

} // namespace muser::cpu
