#include "bindings/open_device.h"

#include "core/error.h"
#include "device/cpu/cpu_device.h"
#include "device/metal/metal_device.h"

namespace muser::bindings {

std::unique_ptr<Device> open_device(const std::string &name, std::optional<int> threads) {
    if (threads && (*threads < 1 || *threads > 1024))
        throw parameter_error("threads", "must be in 1..1024", *threads);
    if (name == "metal" || (name == "auto" && !metal_missing()))
        return make_metal_device();
    if (name == "cpu" || name == "auto")
        return make_cpu_device(threads.value_or(0));
    throw Error(ErrorCode::parameter, "device must be \"auto\", \"cpu\" or \"metal\", not \"" + name + "\"",
                {{"parameter", "device"}, {"value", name}});
}

} // namespace muser::bindings
