// What the compiler calls in an instrumented kernel: -fsanitize=thread before each access of memory, and
// -fsanitize=array-bounds,integer-divide-by-zero where an index or a divisor is wrong. The sanitizers' own runtimes
// are not linked.
#include <cstring>
#include <string>

#include "worker.h"

namespace {

using msl::Worker;

void access(void *address, size_t bytes, Worker::Kind kind, const void *code) {
    Worker &worker = Worker::of_this_thread();
    if (bytes && worker.checking()) worker.access(static_cast<unsigned char *>(address), bytes, kind, nullptr, code);
}

// The start of what the compiler passes: where in the source.
struct SourceLocation {
    const char *file;
    uint32_t line, column;
};

void stop(const char *what, const SourceLocation *location) {
    Worker &worker = Worker::of_this_thread();
    if (worker.checking()) worker.stop(std::string(what) + " at " + location->file + ":" + std::to_string(location->line));
}

} // namespace

#define CALLER __builtin_return_address(0)
#define HOOKS(N)                                                                                                \
    void __tsan_read##N(void *p) { access(p, N, Worker::Kind::read, CALLER); }                                  \
    void __tsan_write##N(void *p) { access(p, N, Worker::Kind::write, CALLER); }                                \
    void __tsan_unaligned_read##N(void *p) { access(p, N, Worker::Kind::read, CALLER); }                        \
    void __tsan_unaligned_write##N(void *p) { access(p, N, Worker::Kind::write, CALLER); }                      \
    void __tsan_read_write##N(void *p) {                                                                        \
        access(p, N, Worker::Kind::read, CALLER);                                                               \
        access(p, N, Worker::Kind::write, CALLER);                                                              \
    }                                                                                                           \
    void __tsan_unaligned_read_write##N(void *p) {                                                              \
        access(p, N, Worker::Kind::read, CALLER);                                                               \
        access(p, N, Worker::Kind::write, CALLER);                                                              \
    }

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_read_range(void *p, size_t bytes) { access(p, bytes, Worker::Kind::read, CALLER); }
void __tsan_write_range(void *p, size_t bytes) { access(p, bytes, Worker::Kind::write, CALLER); }
void *__tsan_memset(void *to, int value, size_t bytes) {
    access(to, bytes, Worker::Kind::write, CALLER);
    return memset(to, value, bytes);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    access(const_cast<void *>(from), bytes, Worker::Kind::read, CALLER);
    access(to, bytes, Worker::Kind::write, CALLER);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    access(const_cast<void *>(from), bytes, Worker::Kind::read, CALLER);
    access(to, bytes, Worker::Kind::write, CALLER);
    return memmove(to, from, bytes);
}
void __ubsan_handle_out_of_bounds(const SourceLocation *data, void *) { stop("index outside of its array", data); }
void __ubsan_handle_divrem_overflow(const SourceLocation *data, void *, void *) { stop("division by zero", data); }
}
