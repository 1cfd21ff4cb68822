// What the code of a kernel and the runtime share: the lanes of the threadgroup that runs now.
// Kernels see it through msl/machine.h; worker.h owns it. One threadgroup runs on one host thread at a time, so
// nothing here is locked.
#pragma once

#include <cstdint>

namespace msl {

struct Extent {
    uint32_t x, y, z;
};

// Where a SIMD-group operation or a barrier stands: all lanes must wait at the same one.
struct Site {
    const char *file;
    int line, column;
    static constexpr Site here(const char *file = __builtin_FILE(), int line = __builtin_LINE(),
                               int column = __builtin_COLUMN()) {
        return {file, line, column};
    }
};

enum class LaneState : uint8_t { ready, simd, simd_barrier, group_barrier, done };

constexpr int simd_width = 32;
constexpr int slot_bytes = 64;

// Lanes pass values through the slots of their SIMD-group. There are two sets, used in turn: a lane may
// enter the next operation while another has not yet read the last one's values.
struct SimdGroup {
    alignas(64) unsigned char in[2][simd_width][slot_bytes];
    alignas(64) unsigned char out[2][simd_width][slot_bytes];
    uint32_t active[2];  // lanes that took part
    bool computed[2];    // the first lane that resumes computes `out` for all
};

struct Lane {
    void *stack_pointer;
    SimdGroup *group;
    uint32_t lane, simd_index, thread; // in the SIMD-group, of the SIMD-group, in the threadgroup
    uint32_t turn;                     // which set of slots is next
    Extent position;                   // in the threadgroup
    LaneState state;
    Site site;
    uint32_t barrier_flags;
};

struct Threadgroup {
    Extent position, size, full_size, groups, threads;
    uint32_t simd_groups;
    // Options that change what an operation's freedom allows; see Options in launch.h.
    uint8_t reduction_order[simd_width];
    uint8_t matrix_place[64]; // element 2 * lane + k of a SIMD-group matrix: row * 8 + column
    bool reductions_shuffled;
};

// initial-exec: kernels are loaded after the runtime, and a lane reads these at every operation.
extern thread_local Lane *current_lane __attribute__((tls_model("initial-exec")));
extern thread_local Threadgroup *current_group __attribute__((tls_model("initial-exec")));

extern "C" {
void msl_wait(int state, const Site *site, uint32_t barrier_flags);
void *msl_threadgroup_memory(int id, uint64_t bytes);
void msl_report_at(const char *what, const Site *site);
[[noreturn]] void msl_stop_at(const char *what, const Site *site); // reports and ends the dispatch
void msl_atomic_access(const void *address, uint32_t bytes, const Site *site);
}

} // namespace msl
