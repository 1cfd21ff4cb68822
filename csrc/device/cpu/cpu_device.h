// The CPU device: every level of every kernel behind the device interface.
#pragma once

#include <memory>
#include <optional>

#include "device/cpu/level.h"
#include "device/device.h"

namespace muser {

// threads 0: one for each physical core this process may use (affinity and control groups count).
// Throws Error{parameter} for a thread count out of range or an unusable MUSER_CPU_LEVEL.
std::unique_ptr<Device> make_cpu_device(int threads = 0);
// At a given level, which must be available; for tests that compare levels.
std::unique_ptr<Device> make_cpu_device(int threads, cpu::Level level);

} // namespace muser
