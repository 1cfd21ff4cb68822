// The CPU levels: the portable one is always there, and MUSER_CPU_LEVEL chooses or is refused by name.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>

#include "core/error.h"
#include "device/cpu/level.h"

using namespace muser;
using namespace muser::cpu;

TEST_CASE("levels ascend from portable, and the fastest is the default") {
    unsetenv("MUSER_CPU_LEVEL");
    const std::vector<Level> levels = available_levels();
    REQUIRE(!levels.empty());
    CHECK(levels.front() == Level::portable);
    CHECK(choose_level() == levels.back());
    MESSAGE(cpu_features()); // tests/test_cross_compile.py reads it
    setenv("MUSER_CPU_LEVEL", "", 1);
    CHECK(choose_level() == levels.back());
}

TEST_CASE("MUSER_CPU_LEVEL chooses any available level") {
    for (const Level level : available_levels()) {
        setenv("MUSER_CPU_LEVEL", std::string(level_name(level)).c_str(), 1);
        CHECK(choose_level() == level);
        CHECK(cpu_features().find("level " + std::string(level_name(level))) != std::string::npos);
    }
    unsetenv("MUSER_CPU_LEVEL");
}

TEST_CASE("an unknown or unavailable level is refused by name") {
    const std::vector<Level> levels = available_levels();
    for (const std::string name : {"sse9", "avx2", "avxvnni", "avx512", "amx", "neon", "i8mm", "AVX2"}) {
        bool available = false;
        for (const Level level : levels)
            available = available || name == level_name(level);
        if (available)
            continue;
        setenv("MUSER_CPU_LEVEL", name.c_str(), 1);
        try {
            choose_level();
            FAIL("level " << name << " was accepted");
        } catch (const Error &error) {
            CHECK(error.code() == ErrorCode::parameter);
            CHECK(error.message().find(name) != std::string::npos);
            CHECK(std::get<std::string>(error.fields().at(1).second) == name);
        }
        CHECK(cpu_features().find("level invalid") != std::string::npos);
    }
    unsetenv("MUSER_CPU_LEVEL");
}
