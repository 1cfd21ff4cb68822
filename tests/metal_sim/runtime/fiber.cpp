#include "fiber.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
// System V: rbx, rbp and r12 to r15 are the callee's to keep.
asm(R"(
.text
.globl msl_switch
.type msl_switch, @function
msl_switch:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    retq
    .cfi_endproc
.size msl_switch, . - msl_switch
)");

void *msl::make_fiber(void *stack_end, void (*entry)()) {
    auto *top = reinterpret_cast<uintptr_t *>(reinterpret_cast<uintptr_t>(stack_end) & ~uintptr_t{15});
    *--top = 0; // where a caller's return address would be: at the entry the stack is 8 off 16
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;
    return top;
}

#elif defined(__aarch64__)
// AAPCS64: x19 to x30 and the low halves of v8 to v15.
asm(R"(
.text
.globl msl_switch
.type msl_switch, %function
msl_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size msl_switch, . - msl_switch
)");

void *msl::make_fiber(void *stack_end, void (*entry)()) {
    auto *top = reinterpret_cast<uintptr_t *>(reinterpret_cast<uintptr_t>(stack_end) & ~uintptr_t{15}) - 20;
    memset(top, 0, 160);
    top[11] = reinterpret_cast<uintptr_t>(entry); // x30
    return top;
}

#else
#error "the simulator's fibers know x86-64 and aarch64"
#endif
