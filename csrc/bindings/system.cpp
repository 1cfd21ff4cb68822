// muser._muser.cpu_features, for muser.system_info().
#include "bindings/bindings.h"

#include <nanobind/stl/string.h>

#include "device/cpu/level.h"

namespace muser::bindings {

void init_system(nb::module_ &m) {
    m.def("cpu_features", &cpu::cpu_features, "One line: the processor, the features that matter, the kernel level.");
}

} // namespace muser::bindings
