// Linux control groups, v1 and v2: the limits that a container or a service manager puts on this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muser::cgroup {

// `root` is prefixed to /proc and /sys ("" on a real machine). Empty: no limit found.
std::optional<uint64_t> available_memory(const std::string &root); // bytes: limit minus usage
std::optional<double> cpu_quota(const std::string &root);          // CPUs, such as 1.5

} // namespace muser::cgroup
