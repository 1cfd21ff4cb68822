// For the host and for kernels in PTX alike, and so without any other header.
#pragma once

namespace msl {

// Where a kernel's argument comes from: named as Metal's attributes are.
enum class Source : int {
    buffer,
    threadgroup,
    thread_position_in_grid,
    threadgroup_position_in_grid,
    thread_position_in_threadgroup,
    thread_index_in_threadgroup,
    thread_index_in_simdgroup,
    simdgroup_index_in_threadgroup,
    threads_per_threadgroup,
    dispatch_threads_per_threadgroup,
    threadgroups_per_grid,
    threads_per_grid,
    simdgroups_per_threadgroup,
    threads_per_simdgroup,
    thread_execution_width,
    quadgroup_index_in_threadgroup,
    thread_index_in_quadgroup,
};

} // namespace msl
