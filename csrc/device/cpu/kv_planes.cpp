// Sizes and places the planes: keys, then values, each starting on a cache line.
#include "device/cpu/kv_planes.h"

#include "core/error.h"
#include "device/cpu/attention.h"

namespace muser::cpu {

namespace {

constexpr uint64_t kLine = 64;

uint64_t round_up(uint64_t n, uint64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

struct Layout {
    uint32_t rows, value_width;
    uint64_t key_bytes, value_bytes;
};

Layout layout_of(const PlaneSpec &spec) {
    if (spec.head_dim == 0 || spec.head_dim % 8 != 0 || spec.head_dim > kMaxHeadDim)
        throw parameter_error("head_dim", "must be a multiple of 8 in 8..512", spec.head_dim);
    if (spec.n_kv_heads == 0)
        throw parameter_error("n_kv_heads", "must be at least 1", spec.n_kv_heads);
    if (spec.rows == 0)
        throw parameter_error("plane rows", "must be at least 1", spec.rows);
    if (spec.ring && spec.rows % kRingMultiple != 0)
        throw parameter_error("ring rows", "must be a multiple of 64", spec.rows);
    const uint64_t element = spec.type == KvType::f16 ? 2 : 4;
    const uint64_t rows = round_up(spec.rows, kTileKeys), width = round_up(spec.head_dim, 16);
    return {static_cast<uint32_t>(rows), static_cast<uint32_t>(width),
            round_up(rows * spec.n_kv_heads * spec.head_dim * element, kLine),
            round_up(rows * spec.n_kv_heads * width * element, kLine)};
}

} // namespace

uint64_t KvPlanes::bytes(std::span<const PlaneSpec> planes) {
    uint64_t total = 0;
    for (const PlaneSpec &spec : planes) {
        const Layout layout = layout_of(spec);
        total += layout.key_bytes + layout.value_bytes;
    }
    return round_to_pages(total);
}

KvPlanes::KvPlanes(std::span<const PlaneSpec> planes) : buffer_(bytes(planes)) {
    std::byte *next = buffer_.data();
    for (const PlaneSpec &spec : planes) {
        const Layout layout = layout_of(spec);
        views_.push_back({next, next + layout.key_bytes, layout.rows, spec.n_kv_heads, spec.head_dim, layout.value_width,
                          spec.type});
        next += layout.key_bytes + layout.value_bytes;
    }
}

} // namespace muser::cpu
