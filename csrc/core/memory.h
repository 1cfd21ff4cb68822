// What this process may use of the machine: memory for memory_plan(), cores for the thread pool.
// Containers count: a control group's limit is as real as the machine's.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace muser {

// Bytes that can be allocated now without swapping or being killed.
// Linux: the least of MemAvailable and, for the control group of this process and each of its parents
// (v1 or v2), limit minus usage, where page cache counts as free because the kernel drops it first.
// macOS: free, inactive and purgeable pages. Elsewhere, or when nothing can be read: physical memory.
uint64_t available_memory();

// Cores worth one compute thread each, at least 1.
// Linux: the physical cores under the affinity mask (SMT siblings share their units: a second thread on
// one core only slows the barrier), at most the control group's CPU quota rounded down (threads beyond
// it would be stopped in the middle of a pass). macOS: the performance cores.
int available_cores();

// The same from a made-up machine: `root` is prefixed to /proc and /sys. For tests.
uint64_t linux_available_memory(const std::string &root);
int linux_available_cores(const std::string &root, std::span<const int> affinity);

} // namespace muser
