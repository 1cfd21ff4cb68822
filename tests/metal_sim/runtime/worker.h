// Runs one threadgroup after another on the calling host thread: its lanes are fibers, and a SIMD-group operation or a
// barrier is a place where they wait for each other. Reports lanes that wait at different places.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "launch.h"
#include "memory.h"

namespace msl {

constexpr uint32_t max_threads = 1024;
constexpr uint64_t threadgroup_limit = 32 * 1024; // bytes, on every Apple GPU

class Worker {
  public:
    static Worker &of_this_thread();
    Worker();
    ~Worker();
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    void begin(const Launch &launch, Extent groups, Extent threads);
    bool run(Extent position, Extent size); // false: stopped by a report
    void end() { launch_ = nullptr; }
    Statistics statistics() const { return statistics_; }

    // Called by lanes.
    void wait(LaneState state, const Site &site, uint32_t flags);
    void *threadgroup_memory(int id, uint64_t bytes);
    [[noreturn]] void stop(const std::string &report);

    // Called for every access of an instrumented kernel; checker.cpp.
    enum class Kind : uint8_t { read, write, atomic };
    bool checking() const { return launch_ && launch_->options.check && current_lane; }
    // `site` where the source line is known (atomics), else `code`, the address of the instruction.
    void access(unsigned char *address, uint64_t bytes, Kind kind, const Site *site, const void *code);

    std::mt19937 random;

  private:
    struct Variable {
        int id;
        unsigned char *begin;
        uint64_t bytes;
    };
    struct Found { // whose memory an address is
        Shadow *shadow;
        uint64_t offset;
        uint32_t ordered; // accesses of threadgroups up to this number are over
        int space;        // 0 threadgroup, 1 device
    };
    static constexpr size_t stack_bytes = 64 * 1024;
    static constexpr size_t arena_bytes = 96 * 1024;

    static Worker *new_of_this_thread();
    void prepare_lanes(uint32_t count);
    void enter(Lane &lane, void **leaving); // goes on with the lane; `leaving`: where to keep the stack pointer
    Lane *next_lane();
    void choose_freedoms();
    bool run_simd_group(uint32_t index, uint32_t first, uint32_t end);
    bool release_simd_group(uint32_t index, uint32_t first, uint32_t end);
    bool release_barrier(uint32_t count);
    bool fail(const std::string &report);
    static void lane_entry();

    bool is_own(const unsigned char *address) const;
    bool find(unsigned char *address, uint64_t bytes, Kind kind, Found &found);
    int find_buffer(const unsigned char *address, uint64_t bytes);
    const Variable *find_variable(const unsigned char *address, uint64_t bytes) const;
    const char *check_cell(Cell &cell, Kind kind, Access now, const Found &found) const;
    std::string name_of(const unsigned char *address) const;

    // Lanes, SIMD-groups, stacks and the arena lie in one mapping, so that one comparison finds what is no
    // memory of the kernel.
    unsigned char *region_;
    size_t region_bytes_;
    Lane *lanes_;
    SimdGroup *simd_groups_;
    unsigned char *stacks_;
    unsigned char *arena_;
    Shadow arena_shadow_;
    const Launch *launch_ = nullptr;
    const unsigned char *module_begin_ = nullptr, *module_end_ = nullptr; // of the kernel's code and constant tables
    Threadgroup group_{};
    uint32_t number_ = 0;           // of the threadgroup, over all dispatches
    uint32_t epoch_[2] = {};        // barriers passed that order threadgroup memory, device memory
    uint32_t simd_epoch_[32][2] = {};
    std::vector<Variable> variables_;
    uint64_t arena_used_ = 0;
    void *pointers_[max_bindings] = {};    // buffers, as the kernel gets them
    void *threadgroup_[max_bindings] = {};
    void *scheduler_ = nullptr; // its stack pointer while a lane runs
    uint8_t lane_order_[simd_width];
    std::vector<uint8_t> simd_order_;
    uint32_t first_ = 0, end_ = 0, step_ = 0; // lanes of the SIMD-group that runs, and the next place in lane_order_
    bool stopped_ = false;
    int complaints_ = 0, last_buffer_ = 0;
    Statistics statistics_{};
};

} // namespace msl
