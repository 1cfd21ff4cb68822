// The list of binding topics.
#include "bindings/bindings.h"

NB_MODULE(_muser, m) {
    using namespace muser::bindings;
    // Threads of the host may still hold objects when it exits; a library does not print about that.
    nb::set_leak_warnings(false);

    init_errors(m);
    init_gguf(m);
    init_quantize(m);
    init_sample(m);
    init_engine(m);
    init_device_ops(m);
    init_exit(m);
    init_system(m);
    init_text(m);
    init_turn(m);

    nb::module_ testing = m.def_submodule("testing", "Internals that tests compare with an oracle. No stable API.");
    init_testing_dequant(testing);
    init_testing_quantize(testing);
    init_testing_forward(testing);
    init_testing_faults(testing);
}
