// Planes one after the other; the layout inside a plane is metal/heads.h's.
#import "device/metal/kv_buffer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"

namespace muser::metal {

namespace {

constexpr uint64_t kPlaneAlignment = 256;

uint64_t plane_bytes(const PlaneSpec &spec) {
    if (spec.rows == 0 || spec.n_kv_heads == 0)
        throw Error(ErrorCode::parameter, "a plane with no rows or no heads");
    if (spec.head_dim % 8 != 0 || spec.head_dim == 0 || spec.head_dim > 512)
        throw parameter_error("head_dim", "must be a multiple of 8 in 8..512", spec.head_dim);
    if (spec.type == KvType::q8_0 && spec.head_dim % kKvBlock != 0)
        throw parameter_error("head_dim", "must be a multiple of 32 for keys and values in q8_0", spec.head_dim);
    const uint64_t bytes = uint64_t{2} * spec.rows * spec.n_kv_heads * kv_bytes(spec.type, spec.head_dim);
    return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
}

// A plane is one array [heads][rows][row bytes], keys' heads and then values', or of q8_0 two: the int8, then the scales.
struct Array {
    uint64_t start, row_bytes;
};
std::array<Array, 2> arrays_of(const PlaneSpec &spec) {
    if (spec.type != KvType::q8_0)
        return {{{0, kv_bytes(spec.type, spec.head_dim)}, {0, 0}}};
    const uint64_t quants = uint64_t{2} * spec.rows * spec.n_kv_heads * spec.head_dim;
    return {{{0, spec.head_dim}, {quants, spec.head_dim / kKvBlock * sizeof(uint16_t)}}};
}

} // namespace

uint64_t KvBuffer::bytes(std::span<const PlaneSpec> planes) {
    uint64_t sum = 0;
    for (const PlaneSpec &spec : planes)
        sum += plane_bytes(spec);
    return sum;
}

KvBuffer::KvBuffer(const Gpu &gpu, std::span<const PlaneSpec> planes) : buffer_(gpu.shared(bytes(planes))) {
    NSUInteger offset = 0;
    for (const PlaneSpec &spec : planes) {
        planes_.push_back({spec, offset});
        offset += plane_bytes(spec);
    }
}

template <class Visit> void KvBuffer::each_part(uint32_t index, Positions positions, Visit visit) const {
    const Plane &plane = planes_.at(index);
    const PlaneSpec &spec = plane.spec;
    auto *bytes = static_cast<std::byte *>(buffer_.contents) + plane.offset;
    uint64_t at = 0;
    for (uint32_t p = positions.begin; p < positions.end; ++p)
        for (uint32_t head = 0; head < 2 * spec.n_kv_heads; ++head)
            for (const auto &[start, size] : arrays_of(spec)) {
                visit(bytes + start + (uint64_t{head} * spec.rows + p % spec.rows) * size, at, size);
                at += size;
            }
}

void KvBuffer::read_rows(uint32_t plane, Positions positions, std::byte *out) const {
    each_part(plane, positions, [&](const std::byte *part, uint64_t at, uint64_t size) { std::memcpy(out + at, part, size); });
}

void KvBuffer::write_rows(uint32_t plane, Positions positions, const std::byte *in) {
    each_part(plane, positions, [&](std::byte *part, uint64_t at, uint64_t size) { std::memcpy(part, in + at, size); });
}

// Each head's keys, then each head's values: rows one after the other.
void KvBuffer::copy(const KvStore &from, uint32_t written) {
    const auto &other = static_cast<const KvBuffer &>(from);
    auto *to_bytes = static_cast<std::byte *>(buffer_.contents);
    const auto *from_bytes = static_cast<const std::byte *>(other.buffer_.contents);
    for (const Plane &plane : planes_)
        for (const auto &[start, row_bytes] : arrays_of(plane.spec))
            for (uint32_t head = 0; head < 2 * plane.spec.n_kv_heads; ++head) {
                const uint64_t at = plane.offset + start + uint64_t{head} * plane.spec.rows * row_bytes;
                std::memcpy(to_bytes + at, from_bytes + at, std::min(written, plane.spec.rows) * row_bytes);
            }
}

} // namespace muser::metal
