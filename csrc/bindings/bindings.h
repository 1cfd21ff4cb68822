// One init function a topic; module.cpp lists them. Conversion, GIL and error mapping only.
#pragma once

#include <nanobind/nanobind.h>

namespace muser::bindings {

namespace nb = nanobind;

void init_errors(nb::module_ &m);
void init_gguf(nb::module_ &m);
void init_sample(nb::module_ &m);
void init_system(nb::module_ &m);

// Into muser._muser.testing.
void init_testing_dequant(nb::module_ &testing);

} // namespace muser::bindings
