// The Metal device, as the rest of the library sees it: plain C++, in every build. Where Metal is not part of the build
// (no_metal.cpp) it says so.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/device.h"

namespace muser {

// Why there is no Metal device here; empty where there is one.
std::optional<std::string> metal_missing();

// Throws Error{unsupported_device} with that reason.
std::unique_ptr<Device> make_metal_device();

} // namespace muser
