// A device by the name that Python gives it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/device.h"

namespace muser::bindings {

// "cpu", "metal", or "auto": Metal where there is one. Throws Error{parameter} or Error{unsupported_device}.
std::unique_ptr<Device> open_device(const std::string &name, std::optional<int> threads);

} // namespace muser::bindings
