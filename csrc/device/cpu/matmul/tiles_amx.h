// The matrix unit of AMX: eight tile registers of up to 16 rows of 64 bytes, and the int8 product of two of them.
// The instructions are written out, because GCC's intrinsics do not tell the compiler what memory they read
// (a configuration built on the stack may never be stored). Include from *_amx.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/matmul/format.h"

namespace muser::cpu {
namespace {

struct alignas(64) TileConfig { // the operand of ldtilecfg, palette 1
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    void set(int tile, int n_rows, int bytes) {
        rows[tile] = static_cast<uint8_t>(n_rows);
        row_bytes[tile] = static_cast<uint16_t>(bytes);
    }
};
static_assert(sizeof(TileConfig) == 64);

// The unit is configured while alive and idle afterwards, when switching threads costs the system nothing more.
class TileUnit {
  public:
    explicit TileUnit(const TileConfig &config) { use(config); }
    ~TileUnit() { __asm__ volatile("tilerelease" ::: "memory"); }
    TileUnit(const TileUnit &) = delete;
    TileUnit &operator=(const TileUnit &) = delete;
    void use(const TileConfig &config) { __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory"); }
};

template <int tile> MUSER_INLINE void tile_zero() { __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile)); }
template <int tile> MUSER_INLINE void tile_load(const void *from, size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile> MUSER_INLINE void tile_store(void *to, size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
}
// sums [rows][16] int32 += a [rows][4 n] int8 times b [n][16][4] int8
template <int sums, int a, int b> MUSER_INLINE void tile_dot() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}

} // namespace
} // namespace muser::cpu
