"""Faults planted in host/example.mm. Each must be found by the fake Metal, by wrong numbers or by objects left behind."""

from __future__ import annotations

from .mutations import Mutation


def M(name: str, old: str, new: str, finds: str, *also: tuple[str, str]) -> Mutation:
    return Mutation(name, "example", old, new, finds, also=also)


_MATRIX = "[encoder setBuffer:matrix_ offset:0 atIndex:1];"
_BARRIER = "[encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];"
_UNTRACKED = "MTLResourceStorageModePrivate | MTLResourceHazardTrackingModeUntracked"
_TWO_ENCODERS = """[encoder endEncoding];
        encoder = [commands computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];"""
_WAIT = """if (!completion->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return completion->done; }))
            throw std::runtime_error("the GPU did not answer");"""
_COPY_OF_X = """id<MTLBuffer> copy = [device_ newBufferWithBytes:x_.contents length:x_.length options:MTLResourceStorageModeShared];
        [encoder setBuffer:copy offset:0 atIndex:1];"""
_OWN_COPY = """g_bytes = bytes + 16384;
        g_room = static_cast<char *>(mmap(nullptr, g_bytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        char *first = g_room + (16384 - reinterpret_cast<uintptr_t>(g_room) % 16384) % 16384;
        memcpy(first, matrix, bytes);
        matrix_ = [device_ newBufferWithBytesNoCopy:first"""
_UNMAP = """if (g_room) munmap(g_room, g_bytes);
        g_room = nullptr;
        [commands commit];"""

HOST_FAULTS = [
    M("barrier between dispatches missing", _BARRIER, "", "race: unordered"),
    M("barrier before the first dispatch", "encode_norm(encoder, vectors);\n        " + _BARRIER,
      _BARRIER + "\n        encode_norm(encoder, vectors);", "race: unordered"),
    M("barrier for textures", "MTLBarrierScopeBuffers", "MTLBarrierScopeTextures", "does not cover buffers"),
    M("barrier for another buffer", _BARRIER, "const id<MTLResource> other[] = {x_};\n"
      "        [encoder memoryBarrierWithResources:other count:1];", "race: unordered"),
    M("untracked buffer across encoders", "options:MTLResourceStorageModePrivate", f"options:{_UNTRACKED}",
      "race: unordered", (_BARRIER, _TWO_ENCODERS)),
    M("endEncoding missing", "[encoder endEncoding];", "", "commit while an encoder is open"),
    M("dispatch after endEncoding", "encode_matvec(encoder, vectors);\n        [encoder endEncoding];",
      "[encoder endEncoding];\n        encode_matvec(encoder, vectors);", "after endEncoding"),
    M("commit twice", "[commands commit];", "[commands commit];\n        [commands commit];", "committed twice"),
    M("commit forgotten", "[commands commit];", "", "error: the GPU did not answer"),
    M("handler after commit", "[commands commit];", "[commands commit];\n        [commands addCompletedHandler:^(id<MTLCommandBuffer>) {}];",
      "a handler is added after commit"),
    M("encoding after commit", "[commands commit];", "[commands commit];\n        [[commands computeCommandEncoder] endEncoding];",
      "an encoder is made after commit"),
    M("no pipeline set", "[encoder setComputePipelineState:norm_];", "", "a dispatch without a pipeline"),
    M("buffer forgotten", _MATRIX, "", "buffer\\(1\\) is still what an earlier kernel got"),
    M("offset past the end", _MATRIX, "[encoder setBuffer:matrix_ offset:1 << 20 atIndex:1];", "is past the end"),
    M("stale offset", "[encoder setBuffer:normed_ offset:0 atIndex:2];", "[encoder setBuffer:normed_ offset:128 atIndex:2];",
      "numbers|out-of-bounds"),
    M("misaligned offset", "[encoder setBuffer:normed_ offset:0 atIndex:2];",
      "[encoder setBuffer:normed_ offset:2 atIndex:2];", "is not aligned"),
    M("wrong buffer", "[encoder setBuffer:normed_ offset:0 atIndex:2];", "[encoder setBuffer:x_ offset:0 atIndex:2];", "numbers"),
    M("bytes shorter than the kernel's struct", "[encoder setBytes:&args length:sizeof args atIndex:0];",
      "[encoder setBytes:&args length:4 atIndex:0];", "has 4 bytes, the kernel's type has 8"),
    M("more bytes than setBytes takes", "[encoder setBytes:&args length:sizeof args atIndex:0];",
      "char big[5000] = {}; memcpy(big, &args, sizeof args);\n        [encoder setBytes:big length:5000 atIndex:0];",
      "more than 4096 bytes"),
    M("threadgroup memory forgotten", "[encoder setThreadgroupMemoryLength:32 * sizeof(float) atIndex:0];", "",
      r"threadgroup\(0\) has no length"),
    M("threadgroup memory too short", "32 * sizeof(float) atIndex:0", "16 * sizeof(float) atIndex:0", "out-of-bounds"),
    M("threadgroup memory of odd length", "32 * sizeof(float) atIndex:0", "33 * sizeof(float) atIndex:0", "no multiple of 16"),
    M("more threads than the pipeline allows", "MTLSizeMake(threads, 1, 1)", "MTLSizeMake(1024, 1, 1)", "whose pipeline allows"),
    M("grid too small", "(rows_ + 3) / 4", "(rows_) / 4", "numbers"),
    M("constant of another type", "type:MTLDataTypeBool atIndex:0", "type:MTLDataTypeInt atIndex:0",
      "error: finding a function: function constant weighted has another type",
      ("const bool weighted", "const int weighted")),
    M("constant forgotten", "[constants setConstantValue:&weighted type:MTLDataTypeBool atIndex:0];", "",
      "function constant weighted is read but was not set"),
    M("name of a function misspelt", '@"rms_norm"', '@"rms_nrom"', "error: finding a function"),
    M("released before completion", "[queue_ commandBuffer]", "[queue_ commandBufferWithUnretainedReferences]",
      "was released before", ("[encoder setBuffer:x_ offset:0 atIndex:1];", _COPY_OF_X)),
    M("result read too early", _WAIT, "", "numbers"),
    M("a wait without an end", _WAIT, "completion->changed.wait(lock, [&] { return completion->done; });", "the wait has no end"),
    M("error of the command buffer ignored", "if (done.error)", "if (false)", "the failure was not noticed"),
    M("CPU writes while the GPU reads", "[commands commit];", "[commands commit];\n        memset(x_.contents, 0, 64);",
      "the CPU changed buffer|numbers"),
    M("contents of private memory", "memcpy(x_.contents, x,", "memcpy(normed_.contents ? x_.contents : x_.contents, x,",
      "private storage"),
    M("memory unmapped under its buffer", "matrix_ = [device_ newBufferWithBytesNoCopy:matrix", _OWN_COPY, "no longer mapped",
      ("#include <memory>", "#include <memory>\n#include <sys/mman.h>"), ("[commands commit];", _UNMAP),
      ("struct NormArgs {", "char *g_room;\nsize_t g_bytes;\nstruct NormArgs {")),
    M("memory that is not page-aligned", "newBufferWithBytesNoCopy:matrix", "newBufferWithBytesNoCopy:static_cast<char *>(matrix) + 64",
      "whole pages"),
    M("a buffer that nobody releases", "[encoder endEncoding];", "[encoder endEncoding];\n        new id<MTLBuffer>(x_);",
      "objects live: .*FakeBuffer"),
    M("no autorelease pool", "    @autoreleasepool {\n        try {", "    {\n        try {", "without a pool"),
    M("residency set not committed", "[set commit];", "", "changes that are not committed"),
    M("residency never ended", " [static_cast<id<MTLResidencySet>>(resident_) endResidency];", " {}", "without endResidency"),
    M("wait in a handler", "completion->done = true;", "completion->done = true;\n            [done waitUntilCompleted];",
      "a handler waits for a command buffer"),
]  # fmt: skip
