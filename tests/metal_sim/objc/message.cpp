// objc_msgSend: finds the method and jumps to it with every argument register as it was. A message to nil gives zero.

#if defined(__x86_64__)
// _stret: the address of the result is the first argument, so the receiver and selector are the next two.
asm(R"(
.macro SEND name, receiver, selector
.globl \name
.type \name, @function
\name:
    .cfi_startproc
    testq \receiver, \receiver
    jz 1f
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    subq $192, %rsp
    andq $-16, %rsp
    movq %rdi, 0(%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movq %rax, 48(%rsp)
    movups %xmm0, 64(%rsp)
    movups %xmm1, 80(%rsp)
    movups %xmm2, 96(%rsp)
    movups %xmm3, 112(%rsp)
    movups %xmm4, 128(%rsp)
    movups %xmm5, 144(%rsp)
    movups %xmm6, 160(%rsp)
    movups %xmm7, 176(%rsp)
    movq \receiver, %rax
    movq \selector, %rsi
    movq %rax, %rdi
    call objc_find_or_abort@PLT
    movq %rax, %r11
    movq 0(%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movq 48(%rsp), %rax
    movups 64(%rsp), %xmm0
    movups 80(%rsp), %xmm1
    movups 96(%rsp), %xmm2
    movups 112(%rsp), %xmm3
    movups 128(%rsp), %xmm4
    movups 144(%rsp), %xmm5
    movups 160(%rsp), %xmm6
    movups 176(%rsp), %xmm7
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_same_value %rbp
    jmpq *%r11
1:
    xorl %eax, %eax
    xorl %edx, %edx
    xorps %xmm0, %xmm0
    xorps %xmm1, %xmm1
    retq
    .cfi_endproc
.size \name, . - \name
.endm
.text
SEND objc_msgSend, %rdi, %rsi
SEND objc_msgSend_fpret, %rdi, %rsi
SEND objc_msgSend_stret, %rsi, %rdx
)");

// C++ exceptions pass through Objective-C++ frames as through C++ ones; @throw is not supported.
asm(R"(
.text
.globl __gnustep_objcxx_personality_v0
.globl __gnustep_objc_personality_v0
.type __gnustep_objcxx_personality_v0, @function
__gnustep_objcxx_personality_v0:
__gnustep_objc_personality_v0:
    jmp __gxx_personality_v0@PLT
)");

#elif defined(__aarch64__)
asm(R"(
.text
.globl objc_msgSend
.globl objc_msgSend_fpret
.globl objc_msgSend_stret
.type objc_msgSend, %function
objc_msgSend:
objc_msgSend_fpret:
objc_msgSend_stret:
    .cfi_startproc
    cbz x0, 1f
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    bl objc_find_or_abort
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    .cfi_def_cfa_offset 0
    br x16
1:
    mov x1, #0
    movi v0.2d, #0
    movi v1.2d, #0
    movi v2.2d, #0
    movi v3.2d, #0
    ret
    .cfi_endproc
.globl __gnustep_objcxx_personality_v0
.globl __gnustep_objc_personality_v0
__gnustep_objcxx_personality_v0:
__gnustep_objc_personality_v0:
    b __gxx_personality_v0
)");
#else
#error "the Objective-C runtime knows x86-64 and aarch64"
#endif
