// Sizes and places the planes, and moves rows in and out of them.
#include "device/cpu/kv_planes.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.h"
#include "device/cpu/attention.h"

namespace muser::cpu {

namespace {

uint32_t value_width(const PlaneSpec &spec) { return (spec.head_dim + 15) / 16 * 16; }
uint64_t blocks(const PlaneSpec &spec) { return (uint64_t{spec.rows} + kBlockKeys - 1) / kBlockKeys; }
uint64_t block_bytes(const PlaneSpec &spec) {
    return uint64_t{kBlockKeys} * spec.n_kv_heads * (kv_bytes(spec.type, spec.head_dim) + kv_bytes(spec.type, value_width(spec)));
}

void check(const PlaneSpec &spec) {
    if (spec.head_dim == 0 || spec.head_dim % 8 != 0 || spec.head_dim > kMaxHeadDim)
        throw parameter_error("head_dim", "must be a multiple of 8 in 8..512", spec.head_dim);
    if (spec.type == KvType::q8_0 && spec.head_dim % kKvBlock != 0)
        throw parameter_error("head_dim", "must be a multiple of 32 for keys and values in q8_0", spec.head_dim);
    if (spec.n_kv_heads == 0)
        throw parameter_error("n_kv_heads", "must be at least 1", spec.n_kv_heads);
    if (spec.rows == 0)
        throw parameter_error("plane rows", "must be at least 1", spec.rows);
    if (spec.ring && spec.rows % kBlockKeys != 0)
        throw parameter_error("ring rows", "must be a multiple of 64", spec.rows);
}

struct Group { // planes of equally many blocks
    uint64_t block_bytes = 0;
    uint64_t start = 0;
};

struct Layout {
    std::map<uint64_t, Group> groups; // by number of blocks
    std::vector<uint64_t> offsets;    // of each plane in its group's block
    uint64_t bytes = 0;
};

Layout lay_out(std::span<const PlaneSpec> planes) {
    Layout layout;
    for (const PlaneSpec &spec : planes) {
        check(spec);
        Group &group = layout.groups[blocks(spec)];
        layout.offsets.push_back(group.block_bytes);
        group.block_bytes += block_bytes(spec);
    }
    for (auto &[n_blocks, group] : layout.groups) {
        group.start = layout.bytes;
        layout.bytes += n_blocks * group.block_bytes;
    }
    return layout;
}

// f(key tile at its position's column, value row, head) for every head of one position.
template <class T, class F> void each_head(const PlaneView &plane, uint32_t position, const F &f) {
    for (uint32_t head = 0; head < plane.n_kv_heads; ++head)
        f(plane.key_tile<T>(position, head) + position % kTileKeys, plane.value_row<T>(position, head), head);
}

template <class T> void read(const PlaneView &plane, Positions positions, std::byte *bytes) {
    auto *out = reinterpret_cast<T *>(bytes);
    const size_t values = size_t{plane.n_kv_heads} * plane.head_dim;
    for (uint32_t p = positions.begin; p < positions.end; ++p, out += 2 * values)
        each_head<T>(plane, p, [&](const T *key, const T *value, uint32_t head) {
            T *to = out + size_t{head} * plane.head_dim;
            for (uint32_t d = 0; d < plane.head_dim; ++d)
                to[d] = key[size_t{d} * kTileKeys];
            std::memcpy(to + values, value, plane.head_dim * sizeof(T));
        });
}

template <class T> void write(const PlaneView &plane, Positions positions, const std::byte *bytes) {
    const auto *in = reinterpret_cast<const T *>(bytes);
    const size_t values = size_t{plane.n_kv_heads} * plane.head_dim;
    for (uint32_t p = positions.begin; p < positions.end; ++p, in += 2 * values)
        each_head<T>(plane, p, [&](T *key, T *value, uint32_t head) {
            const T *from = in + size_t{head} * plane.head_dim;
            for (uint32_t d = 0; d < plane.head_dim; ++d)
                key[size_t{d} * kTileKeys] = from[d];
            std::memcpy(value, from + values, plane.head_dim * sizeof(T));
        });
}

// f(an element, its place in the bytes that leave) for every part of q8_0 rows: single quants, single scales.
template <class Bytes, class F> void each_quantized(const PlaneView &plane, Positions positions, Bytes bytes, const F &f) {
    const auto head_part = [&](int8_t *quants, size_t step, int8_t *tile, uint32_t lane) {
        for (uint32_t d = 0; d < plane.head_dim; ++d, ++bytes)
            f(quants + d * step, bytes, size_t{1});
        for (uint32_t b = 0; b < plane.head_dim / kKvBlock; ++b, bytes += sizeof(uint16_t))
            f(plane.scales(tile) + size_t{b} * kTileKeys + lane, bytes, sizeof(uint16_t));
    };
    for (uint32_t p = positions.begin; p < positions.end; ++p) {
        for (uint32_t head = 0; head < plane.n_kv_heads; ++head) {
            int8_t *keys = plane.key_tile<int8_t>(p, head);
            head_part(keys + p % kTileKeys, kTileKeys, keys, p % kTileKeys);
        }
        for (uint32_t head = 0; head < plane.n_kv_heads; ++head)
            head_part(plane.value_row<int8_t>(p, head), 1, plane.value_tile<int8_t>(p, head), p % kTileKeys);
    }
}

void read_quantized(const PlaneView &plane, Positions positions, std::byte *out) {
    each_quantized(plane, positions, out, [](const void *from, std::byte *to, size_t n) { std::memcpy(to, from, n); });
}

void write_quantized(const PlaneView &plane, Positions positions, const std::byte *in) {
    each_quantized(plane, positions, in,
                   [](void *to, const std::byte *from, size_t n) { std::memcpy(to, from, n); });
}

} // namespace

void KvPlanes::read_rows(uint32_t plane, Positions positions, std::byte *out) const {
    const PlaneView &view = views_.at(plane);
    switch (view.type) {
    case KvType::f16: return read<uint16_t>(view, positions, out);
    case KvType::f32: return read<float>(view, positions, out);
    case KvType::q8_0: return read_quantized(view, positions, out);
    }
}

void KvPlanes::write_rows(uint32_t plane, Positions positions, const std::byte *in) {
    const PlaneView &view = views_.at(plane);
    switch (view.type) {
    case KvType::f16: return write<uint16_t>(view, positions, in);
    case KvType::f32: return write<float>(view, positions, in);
    case KvType::q8_0: return write_quantized(view, positions, in);
    }
}

uint64_t KvPlanes::bytes(std::span<const PlaneSpec> planes) { return round_to_pages(lay_out(planes).bytes); }

KvPlanes::KvPlanes(std::span<const PlaneSpec> planes) : buffer_(bytes(planes), PageBuffer::Pages::large_where_possible) {
    const Layout layout = lay_out(planes);
    for (const auto &[n_blocks, group] : layout.groups)
        sections_.push_back({group.start, n_blocks, group.block_bytes});
    for (size_t i = 0; i < planes.size(); ++i) {
        const PlaneSpec &spec = planes[i];
        const auto &group = layout.groups.at(blocks(spec));
        views_.push_back({buffer_.data() + group.start + layout.offsets[i], group.block_bytes,
                          static_cast<uint32_t>(blocks(spec) * kBlockKeys), spec.n_kv_heads, spec.head_dim, value_width(spec),
                          spec.type});
    }
}

void KvPlanes::copy(const KvStore &from, uint32_t written) {
    const auto &other = static_cast<const KvPlanes &>(from);
    const uint64_t blocks = (uint64_t{written} + kBlockKeys - 1) / kBlockKeys;
    for (const Section &section : sections_) // the first rows of all its planes are one piece of memory
        std::memcpy(buffer_.data() + section.start, other.buffer_.data() + section.start,
                    std::min(blocks, section.blocks) * section.block_bytes);
}

} // namespace muser::cpu
