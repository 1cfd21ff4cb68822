// One init function a topic; module.cpp lists them. Conversion, GIL and error mapping only.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "core/wait.h"

namespace muser::bindings {

namespace nb = nanobind;

void init_errors(nb::module_ &m);
void init_gguf(nb::module_ &m);
void init_quantize(nb::module_ &m);
void init_sample(nb::module_ &m);
void init_engine(nb::module_ &m);
void init_device_ops(nb::module_ &m);
void init_exit(nb::module_ &m);
void init_system(nb::module_ &m);
void init_text(nb::module_ &m);
void init_turn(nb::module_ &m);

// Into muser._muser.testing.
void init_testing_dequant(nb::module_ &testing);
void init_testing_quantize(nb::module_ &testing);
void init_testing_forward(nb::module_ &testing);
void init_testing_faults(nb::module_ &testing);

// What a blocking call carries: a deadline `timeout` seconds from now (None: none; refused below zero or not
// finite), and a poll that runs Python's signal handlers, so that Ctrl-C ends the wait.
Wait make_wait(std::optional<double> timeout);

} // namespace muser::bindings
