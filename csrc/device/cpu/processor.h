// What the processor offers, found by cpuid on x86 and from the operating system on ARM.
#pragma once

#include <string>
#include <vector>

namespace muser::cpu {

struct Processor {
    std::string brand;                 // empty when unknown
    std::vector<std::string> features; // those that matter to the kernels, for people
    bool avx2 = false;                 // AVX2, FMA, F16C and the rest of x86-64-v3, with OS support
    bool avxvnni = false;              // int8 dot products in AVX registers
    bool avx512 = false;               // x86-64-v4 and VNNI, with OS support
    bool amx = false;                  // AMX tiles and their int8 product, with OS support
    bool neon_dotprod = false;         // ARMv8.2 dot product and half floats
    bool i8mm = false;                 // ARMv8.6 int8 matrix product
};

Processor inspect_processor();

// Whether threads of this process may use the tile registers of AMX. Linux wants to be asked once a process, and
// refuses where a thread has a signal stack that is too small for them.
bool may_use_tiles();

} // namespace muser::cpu
