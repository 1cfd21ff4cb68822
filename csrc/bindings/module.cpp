// The list of binding topics.
#include "bindings/bindings.h"

NB_MODULE(_muser, m) {
    using namespace muser::bindings;
    init_errors(m);
    init_gguf(m);
}
