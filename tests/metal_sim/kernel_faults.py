"""Faults planted in the example kernels. Each must be found by a check, or by numbers that are wrong."""

from __future__ import annotations

from .mutations import Mutation as M

_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
_RACE, _OUTSIDE = "race: ", "out-of-bounds|was written"
# Right on the GPUs of today, and promised by nobody.
_APPLE_LAYOUT = """{
    const short l = thread_index % 32, q = l / 4, r = (q & 4) + l / 2 % 4, c0 = (q & 2) * 2 + l % 2 * 2;
    for (short k = 0; k < 2; ++k) c_tile[gm + i * 8 + r][gn + j * 8 + c0 + k] = sum[i][j].thread_elements()[k]; }"""

FAULTS = [
    M("norm: first barrier missing", "norm", _BARRIER, "", _RACE),
    M("norm: second barrier missing", "norm", _BARRIER, "", _RACE + "|uninitialised", 2),
    M("norm: partial sums not zeroed", "norm", "if (group == 0) partial[lane] = 0;", "", "uninitialised read"),
    M("norm: a barrier that orders nothing", "norm", "mem_threadgroup", "mem_none", _RACE + "|uninitialised", 2),
    M("norm: a barrier for device memory", "norm", "mem_threadgroup", "mem_device", _RACE + "|uninitialised", 2),
    M("norm: a barrier of the SIMD-group", "norm", _BARRIER, "simdgroup_barrier(mem_flags::mem_threadgroup);",
      _RACE + "|uninitialised", 2),
    M("norm: SIMD sum in a branch of some lanes", "norm", "sum = simd_sum(partial[lane]);",
      "if (lane < 16) sum = simd_sum(partial[lane]); else sum = simd_max(sum);", "divergent SIMD-group operation"),
    M("norm: barrier in a branch of some threads", "norm", _BARRIER, f"if (thread_index < 64) {{ {_BARRIER} }}",
      "divergent|not reached|different barriers", 2),
    M("norm: some threads return early", "norm", "float sum = 0;", "float sum = 0; if (thread_index >= 70) return;",
      "not reached"),
    M("norm: more threadgroup memory than there is", "norm", "partial[group] = sum", "partial[group + 30] = sum", _OUTSIDE),
    M("norm: all lanes write one place", "norm", "if (lane == 0) partial[group] = sum;", "partial[group] = sum;", _RACE),
    M("norm: reads past the row", "norm", "args.width / 4", "args.width / 4 + 1", _OUTSIDE + "|race", 1),
    M("norm: misaligned vectors", "norm", "(x + row * args.width)", "(x + 1 + row * args.width)", "misaligned"),
    M("norm: stride of another row", "norm", "(y + row * args.width)", "(y + row)", "misaligned|race"),
    M("norm: epsilon forgotten", "norm", "sum / args.width + args.epsilon", "sum + args.epsilon", "numbers"),
    M("norm: function constant read though not set", "norm", "has_gain ? gain : 1.0f", "gain",
      "function constant gain is read but was not set"),
    M("norm: division by a zero", "norm", "const float scale =", "const int zero = args.width - 256; "
      "if (thread_index == 77 / zero) return; const float scale =", "division by zero"),
    M("matvec: bound of rows dropped", "matvec", "if (row >= args.rows) return;", "", _OUTSIDE),
    M("matvec: bound of rows off by one", "matvec", "row >= args.rows", "row > args.rows", _OUTSIDE),
    M("matvec: all lanes store", "matvec", "if (lane == 0) y[", "y[", _RACE),
    M("matvec: wrong part of a block", "matvec", "block.values + part * 8", "block.values + part * 4", "numbers"),
    M("matvec: a vector past the last", "matvec", "float sum[Vectors] = {};", "float sum[Vectors] = {}; sum[Vectors - 1 + lane] = 0;",
      "index outside of its array"),
    M("matvec: some lanes leave before the sum", "matvec", "const short part", "if (lane >= args.blocks) return; const short part",
      "numbers"),
    M("matvec: sums not started", "matvec", "float sum[Vectors] = {};", "float sum[Vectors];", "numbers"),
    M("matmul: barrier after the load missing", "matmul", _BARRIER, "", _RACE + "|uninitialised"),
    M("matmul: barrier before the next load missing", "matmul", _BARRIER, "", _RACE, 2),
    M("matmul: barrier before the tile is read missing", "matmul", _BARRIER, "", _RACE + "|uninitialised", 3),
    M("matmul: tile index off by one", "matmul", "a_tile[r * tile + first + i]", "a_tile[r * tile + first + i + 1]",
      _OUTSIDE + "|race|uninitialised|index outside"),
    M("matmul: rows of the result unchecked", "matmul", "m < args.m &&", "m <= args.m &&", _OUTSIDE + "|race"),
    M("matmul: rows of A unchecked", "matmul", "(m0 + r < args.m && k < args.k)", "(k < args.k)", _OUTSIDE),
    M("matmul: B not transposed", "matmul", "ulong2(0, 0), true", "ulong2(0, 0), false", "numbers"),
    M("matmul: a matrix operation of half a SIMD-group", "matmul", "simdgroup_load(ma[i],",
      "if (thread_index % 32 < 16) simdgroup_load(ma[i],", "divergent"),
    M("matmul: accumulators not filled", "matmul",
      "for (short j = 0; j < 2; ++j) sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);", ";", "numbers"),
    M("matmul: relies on which elements a lane holds", "matmul",
      "simdgroup_store(sum[i][j], &c_tile[gm + i * 8][gn + j * 8], tile);", _APPLE_LAYOUT, "numbers"),
    M("matmul: more threadgroup memory than 32 KiB", "matmul", "threadgroup float c_tile[tile][tile];",
      "threadgroup float c_tile[tile][tile]; threadgroup float more[7000]; more[thread_index] = 0;", "over 32 KiB"),
    M("histogram: no atomic", "misc", "atomic_fetch_add_explicit(&bins[x[i] % 16], 1u, memory_order_relaxed)",
      "((device uint *)bins)[x[i] % 16] += 1", _RACE),
    M("histogram: bound off by one", "misc", "i < count", "i <= count", _OUTSIDE),
    M("histogram: one bin too many", "misc", "x[i] % 16]", "x[i] % 17]", _OUTSIDE),
    M("arg max: ties go to the last", "misc", "other_index < index", "other_index > index", "numbers"),
    M("arg max: half of the lanes never meet", "misc", "step = 16", "step = 8", "numbers"),
]  # fmt: skip

# What the translator or the lint must refuse.
REFUSED = [
    M("double", "norm", "float sum = 0;", "double sum = 0;", "Metal has no double"),
    M("a pointer without an address space", "norm", "device const float4 *w =", "const float4 *w =", "without an address space"),
    M("the wrong address space", "norm", "device const float4 *w =", "threadgroup const float4 *w =", "address_space"),
    M("a cast that is a vector cast", "matvec", "const float scale = block.scale;", "const float4 v = (float4)block.scale; "
      "const float scale = v.x;", r"write float4\(x\)"),
    M("an index bound twice", "matvec", "[[buffer(3)]]", "[[buffer(2)]]", "two arguments with one buffer index"),
    M("an argument without its attribute", "matvec", "ushort lane [[thread_index_in_simdgroup]]", "ushort lane",
      "without its attribute"),
    M("an attribute that does not exist", "matvec", "thread_index_in_simdgroup", "thread_index_in_warp", "is not understood"),
    M("two threadgroup variables at once", "matmul", "threadgroup half a_tile[tile * tile];",
      "threadgroup half a_tile[tile * tile], other[4];", "one threadgroup variable a declaration"),
    M("threadgroup after the type", "matmul", "threadgroup half a_tile[tile * tile];", "half threadgroup a_tile[tile * tile];",
      "threadgroup declaration not understood"),
    M("recursion", "misc", "kernel void histogram", "inline int f(int n) { return n ? f(n - 1) : 0; }\nkernel void histogram",
      "Metal has no recursion"),
    M("a lambda", "misc", "const int v = x[lane];", "auto f = [](int a) { return a; }; const int v = f(x[lane]);", "lambda"),
    M("a static local", "misc", "const int v = x[lane];", "static int n; const int v = x[lane];", "static local"),
    M("C++17", "matvec", "float sum[Vectors] = {};", "float sum[Vectors] = {}; if constexpr (Vectors > 1) {}", "C\\+\\+17"),
    M("a variable outside of constant memory", "misc", "struct Packed", "float global = 1;\nstruct Packed", "constant address space"),
    M("an instantiation of nothing", "matvec", 'decltype(matvec<Block, N>) matvec<Block, N>', "decltype(f<N>) f<N>",
      "no kernel template"),
    M("a type of function constant that is unknown", "norm", "constant float gain [[", "constant float4 gain [[",
      "a function constant is"),
    M("writing to constant memory", "misc", "if (i < count)", "count = 3; if (i < count)", "const"),
    M("an unused variable", "misc", "const int v = x[lane];", "const int v = x[lane]; int w = v;", "unused"),
    M("an include that is not Metal's", "norm", '#include "common.h"', '#include "common.h"\n#include <vector>', "not found"),
]  # fmt: skip
