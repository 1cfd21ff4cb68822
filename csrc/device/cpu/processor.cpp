// inspect_processor() for x86-64, aarch64 Linux and aarch64 macOS; other machines have the portable level.
#include "device/cpu/processor.h"

#include <cstdint>
#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace muser::cpu {

#if defined(__x86_64__)

namespace {

struct Registers {
    uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
    Registers r; // stays zero for a leaf that the processor does not have
    __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
    return r;
}

// XCR0: the register state that the operating system saves.
uint64_t saved_state() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return static_cast<uint64_t>(high) << 32 | low;
}

std::string brand_string() {
    char text[49] = {};
    for (uint32_t i = 0; i < 3; ++i) {
        const Registers r = cpuid(0x80000002u + i);
        std::memcpy(text + 16 * i, &r, sizeof r);
    }
    std::string brand(text);
    const size_t first = brand.find_first_not_of(' ');
    if (first == std::string::npos)
        return {};
    return brand.substr(first, brand.find_last_not_of(' ') - first + 1);
}

} // namespace

Processor inspect_processor() {
    const auto bit = [](uint32_t reg, int index) { return (reg >> index & 1u) != 0; };
    const Registers one = cpuid(1), seven = cpuid(7), extended = cpuid(0x80000001u);
    const uint64_t state = bit(one.c, 27) ? saved_state() : 0; // OSXSAVE
    const bool ymm_saved = (state & 0x6) == 0x6;               // XMM, YMM
    const bool zmm_saved = (state & 0xe6) == 0xe6;             // and masks, upper ZMM, ZMM16..31

    const struct {
        const char *name;
        bool present;
    } table[] = {
        {"avx", ymm_saved && bit(one.c, 28)},
        {"avx2", ymm_saved && bit(seven.b, 5)},
        {"fma", ymm_saved && bit(one.c, 12)},
        {"f16c", ymm_saved && bit(one.c, 29)},
        {"bmi1", bit(seven.b, 3)},
        {"bmi2", bit(seven.b, 8)},
        {"movbe", bit(one.c, 22)},
        {"lzcnt", bit(extended.c, 5)},
        {"avx512f", zmm_saved && bit(seven.b, 16)},
        {"avx512bw", zmm_saved && bit(seven.b, 30)},
        {"avx512cd", zmm_saved && bit(seven.b, 28)},
        {"avx512dq", zmm_saved && bit(seven.b, 17)},
        {"avx512vl", zmm_saved && bit(seven.b, 31)},
        {"avx512vnni", zmm_saved && bit(seven.c, 11)},
    };
    constexpr size_t kV3 = 8; // the first eight make the avx2 level, all of them avx512

    Processor cpu;
    cpu.brand = brand_string();
    cpu.avx2 = cpu.avx512 = true;
    for (size_t i = 0; i < std::size(table); ++i) {
        if (table[i].present) {
            cpu.features.push_back(table[i].name);
            continue;
        }
        cpu.avx512 = false;
        if (i < kV3)
            cpu.avx2 = false;
    }
    cpu.avxvnni = ymm_saved && bit(cpuid(7, 1).a, 4);
    if (cpu.avxvnni)
        cpu.features.push_back("avxvnni");
    const bool tiles_saved = (state & 0x60000) == 0x60000; // the tiles and their configuration
    cpu.amx = tiles_saved && bit(seven.d, 24) && bit(seven.d, 25);
    if (cpu.amx)
        cpu.features.push_back("amx_int8");
    return cpu;
}

bool may_use_tiles() {
#if defined(__linux__)
    constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
    return granted;
#else
    return false;
#endif
}

#elif defined(__aarch64__)

Processor inspect_processor() {
    Processor cpu;
    cpu.features.push_back("neon");
#if defined(__linux__)
    const unsigned long caps = getauxval(AT_HWCAP);
    const bool half = (caps >> 10 & 1) != 0;    // HWCAP_ASIMDHP
    const bool dotprod = (caps >> 20 & 1) != 0; // HWCAP_ASIMDDP
    cpu.i8mm = (getauxval(AT_HWCAP2) >> 13 & 1) != 0; // HWCAP2_I8MM
#elif defined(__APPLE__)
    const auto has = [](const char *name) {
        int value = 0;
        size_t size = sizeof value;
        return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
    };
    const bool half = has("hw.optional.arm.FEAT_FP16"), dotprod = has("hw.optional.arm.FEAT_DotProd");
    cpu.i8mm = has("hw.optional.arm.FEAT_I8MM");
    char brand[128] = {};
    size_t size = sizeof brand - 1;
    if (sysctlbyname("machdep.cpu.brand_string", brand, &size, nullptr, 0) == 0)
        cpu.brand = brand;
#else
    const bool half = false, dotprod = false;
#endif
    if (half)
        cpu.features.push_back("fp16");
    if (dotprod)
        cpu.features.push_back("dotprod");
    if (cpu.i8mm)
        cpu.features.push_back("i8mm");
    cpu.neon_dotprod = half && dotprod;
    return cpu;
}

bool may_use_tiles() { return false; }

#else

Processor inspect_processor() { return {}; }
bool may_use_tiles() { return false; }

#endif

} // namespace muser::cpu
