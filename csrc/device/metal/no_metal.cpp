// Builds without Metal: the same two functions, and the reason.
#include "core/error.h"
#include "device/metal/metal_device.h"

namespace muser {

std::optional<std::string> metal_missing() { return "Metal needs macOS 14 or later on Apple silicon"; }

std::unique_ptr<Device> make_metal_device() {
    throw Error(ErrorCode::unsupported_device, "there is no device \"metal\" here: " + *metal_missing());
}

} // namespace muser
