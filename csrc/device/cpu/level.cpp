// Which CPU level runs here: what the processor has, what the operating system saves on a context switch,
// and what MUSER_CPU_LEVEL asks for.
#include "device/cpu/level.h"

#include <array>
#include <cstdlib>

#include "core/error.h"
#include "device/cpu/processor.h"

namespace muser::cpu {

namespace {

constexpr std::array kAllLevels{Level::portable, Level::avx2, Level::avxvnni, Level::avx512, Level::amx, Level::neon, Level::i8mm};

} // namespace

std::string_view level_name(Level level) {
    switch (level) {
    case Level::portable: return "portable";
    case Level::avx2: return "avx2";
    case Level::avxvnni: return "avxvnni";
    case Level::avx512: return "avx512";
    case Level::amx: return "amx";
    case Level::neon: return "neon";
    case Level::i8mm: return "i8mm";
    }
    return "unknown";
}

std::vector<Level> available_levels() {
    const Processor cpu = inspect_processor();
    std::vector<Level> levels{Level::portable};
    if (cpu.avx2)
        levels.push_back(Level::avx2);
#if defined(MUSER_HAS_AVXVNNI)
    if (cpu.avx2 && cpu.avxvnni)
        levels.push_back(Level::avxvnni);
#endif
    if (cpu.avx512)
        levels.push_back(Level::avx512);
#if defined(MUSER_HAS_AMX)
    if (cpu.avx512 && cpu.amx && may_use_tiles())
        levels.push_back(Level::amx);
#endif
    if (cpu.neon_dotprod)
        levels.push_back(Level::neon);
#if defined(MUSER_HAS_I8MM)
    if (cpu.neon_dotprod && cpu.i8mm)
        levels.push_back(Level::i8mm);
#endif
    return levels;
}

Level choose_level() {
    const std::vector<Level> levels = available_levels();
    const char *asked = std::getenv("MUSER_CPU_LEVEL");
    if (!asked || !*asked)
        return levels.back();
    std::string names;
    for (const Level level : levels) {
        if (asked == level_name(level))
            return level;
        names.append(names.empty() ? "" : ", ").append(level_name(level));
    }
    bool known = false;
    for (const Level level : kAllLevels)
        known = known || asked == level_name(level);
    const std::string problem = known ? " is not available on this machine" : " is no CPU level";
    throw Error(ErrorCode::parameter,
                "MUSER_CPU_LEVEL=" + std::string(asked) + problem + "; there is " + names,
                {{"parameter", "MUSER_CPU_LEVEL"}, {"value", std::string(asked)}});
}

std::string cpu_features() {
    const Processor cpu = inspect_processor();
    std::string line = cpu.brand.empty() ? "unknown CPU" : cpu.brand;
    for (const std::string &feature : cpu.features)
        line.append(&feature == &cpu.features.front() ? ": " : " ").append(feature);
    std::string level;
    try {
        level = level_name(choose_level());
    } catch (const Error &) { // a wrong MUSER_CPU_LEVEL is reported where it matters, not here
        level = "invalid";
    }
    return line + "; level " + level;
}

} // namespace muser::cpu
