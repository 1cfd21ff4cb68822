// A dispatch: which kernel, with what bound, over which grid. The table of kernels is what the translator appends to
// every file (launch_table.h); runner.py and the fake Metal fill in the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "source.h"
#include "state.h"

namespace msl {

struct Parameter {
    Source source;
    int32_t index;  // of a buffer or of threadgroup memory
    bool optional;  // there only where a function constant says so
    bool writable;  // a device buffer that is not const
    uint32_t bytes; // the least a buffer must have: the size of a reference's type, else of one element
    uint32_t alignment;
};

struct Kernel {
    const char *name;
    void (*call)(void *const *buffers, void *const *threadgroup);
    const Parameter *parameters;
    int32_t parameter_count;
    int32_t max_threads; // what the kernel itself says; 0: nothing
};

struct FunctionConstant {
    const char *name;
    void *value;
    bool *is_set;
    int32_t index, size, data_type; // MTLDataType
};

constexpr int max_bindings = 31;

struct Allocation;

// One buffer index. A null base: nothing is bound.
struct Binding {
    unsigned char *base; // where the kernel's pointer points
    uint64_t bytes;      // from there to the end
    Allocation *memory;  // what the checker knows of it; null: none may be written (setBytes)
};

struct ConstantValue {
    int32_t index, data_type;
    const void *value;
};

struct Options {
    uint32_t seed;     // of every random choice below
    uint8_t check;     // the memory checker; the kernel must have been built for it
    uint8_t randomize; // order of threadgroups, SIMD-groups and lanes; the layout of SIMD-group matrices
    uint8_t shuffle_reductions; // another order of summation, the same for the whole dispatch
    uint8_t threads;            // host threads that run threadgroups; the checker runs on one
};

struct Launch {
    const Kernel *kernel;
    const FunctionConstant *constants; // of the library, ended by a null name
    Binding buffers[max_bindings];
    uint64_t threadgroup_bytes[max_bindings];
    const ConstantValue *values;
    int32_t value_count;
    Extent grid;         // in threads or in threadgroups
    Extent group;        // threads of one threadgroup
    bool grid_of_threads;
    Options options;
};

struct Statistics {
    uint64_t threadgroups, switches, threadgroup_bytes;
};

// Runs to the end, or to the first report after which nothing sensible can follow. The number of new reports.
int dispatch(const Launch &launch, Statistics *statistics);

} // namespace msl
