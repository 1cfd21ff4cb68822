// The list of binding topics.
#include "bindings/bindings.h"

NB_MODULE(_muser, m) {
    using namespace muser::bindings;
    init_errors(m);
    init_gguf(m);
    init_sample(m);
    init_engine(m);
    init_system(m);

    nb::module_ testing = m.def_submodule("testing", "Internals that tests compare with an oracle. No stable API.");
    init_testing_dequant(testing);
    init_testing_forward(testing);
    init_testing_faults(testing);
}
