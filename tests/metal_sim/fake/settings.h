// How the fake GPU behaves, and what it counted. Tests set and read both by name through ctypes (api.cpp); the first
// values come from the environment, MUSER_METAL_SIM_<NAME>. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace fake {

typedef std::atomic<int64_t> Number;

struct Settings {
    Number check{1};     // kernels built and run under the memory checker
    Number fast_math{0}; // or built as Metal's default allows; check goes first
    Number randomize{1}; // everything Metal leaves open, from `seed`
    Number shuffle_reductions{0};
    Number threads{2}; // that run threadgroups, where the checker does not
    Number seed{1};
    Number poison{1};         // new buffers hold NaN; else zero, as they mostly do
    Number strict_bindings{1}; // every argument is set again after the pipeline is set
    Number execute{1};        // 0: count and trace, run nothing
    Number delay_us{50};      // most microseconds between commit and execution
    Number max_threads{0};    // maxTotalThreadsPerThreadgroup of every pipeline; 0: by randomize, else 1024
    Number fail_in{0};        // the n-th command buffer committed from now fails half-way; 0: none
    Number fail_code{1};      // its MTLCommandBufferError
    Number hang_in{0};        // the n-th committed from now stops half-way until `release_hung` is set
    Number release_hung{0};
    Number residency_sets{1}; // whether the system has them (macOS 15)
    Number max_buffer_length{int64_t{1} << 40};
    Number working_set{int64_t{1} << 40}; // recommendedMaxWorkingSetSize
    Number trace{0};                      // keep a line for every command; see Trace
};
struct Counters {
    Number command_buffers{0}, encoders{0}, dispatches{0}, barriers{0}, copies{0};
    Number bound_bytes{0};  // of device buffers, offset to end, over all dispatches
    Number set_bytes{0};    // copied by setBytes
    Number allocated{0};    // by buffers that live
    Number threadgroups{0}, switches{0};
};

Settings &settings();
Counters &counters();
Number *find_number(const std::string &name); // of either; null: unknown

// With settings().trace: "dispatch NAME GRID GROUP buffer@offset ..." and so on, in the order of encoding.
void trace(const std::string &line);
std::string take_trace();

} // namespace fake
