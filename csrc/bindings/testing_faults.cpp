// muser._muser.testing.faulty_engine: a real engine on a device whose chosen passes fail or hang.
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings/bindings.h"
#include "bindings/open_device.h"
#include "device/fault/fault_device.h"
#include "session/engine.h"

namespace muser::bindings {

void init_testing_faults(nb::module_ &testing) {
    using namespace nb::literals;
    testing.def(
        "faulty_engine",
        [](const std::string &path, int slots, uint64_t commit, bool all_later, bool after_running, const std::string &device,
           bool pausing) {
            FaultPlan plan;
            plan.commit = commit;
            plan.all_later = all_later;
            plan.after_running = after_running;
            EngineOptions options;
            options.slots = slots;
            if (pausing)
                options.pause_after = std::chrono::milliseconds(0);
            return std::make_unique<Engine>(gguf::Model::open(path), std::make_unique<FaultDevice>(open_device(device, 1), plan), options);
        },
        "path"_a, nb::kw_only(), "slots"_a, "commit"_a, "all_later"_a = false, "after_running"_a = false, "device"_a = "cpu", "pausing"_a = false,
        "An Engine whose pass number `commit` (1: the first) fails with \"injected fault\". pausing: prompts let decoders in after"
        " every step.");
}

} // namespace muser::bindings
