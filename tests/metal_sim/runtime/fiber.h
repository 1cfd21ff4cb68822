// Lanes as fibers: a stack each, and a switch that saves the registers a call must preserve.
#pragma once

#include <cstddef>

namespace msl {

// `stack_end` is the address after the last byte. The first switch to the result calls `entry`, which must not return.
void *make_fiber(void *stack_end, void (*entry)());

} // namespace msl

// Saves the running fiber's stack pointer in *from and continues the one whose stack pointer is `to`.
extern "C" void msl_switch(void **from, void *to);
