#include "kv/planes.h"

#include <algorithm>
#include <string>

namespace muser {

namespace {
constexpr uint32_t kRowMultiple = 64; // devices walk keys in aligned blocks of up to this many rows
uint32_t round_up(uint32_t n) { return (n + kRowMultiple - 1) / kRowMultiple * kRowMultiple; }
} // namespace

std::vector<PlaneSpec> plane_specs(const HParams &h, uint32_t context, KvType type) {
    if (type == KvType::q8_0 && h.head_dim % kKvBlock != 0)
        throw Error(ErrorCode::parameter,
                    "kv_dtype \"q8_0\" needs heads of a multiple of 32 values, and this model's have " + std::to_string(h.head_dim),
                    {{"parameter", "kv_dtype"}, {"value", "q8_0"}});
    std::vector<PlaneSpec> specs;
    for (const LayerParams &layer : h.layers) {
        const uint32_t growing = round_up(context);
        // A window of the whole context or more needs no ring (and its sum must not overflow).
        const uint32_t ring = layer.window && layer.window < context ? round_up(layer.window + kRingMargin) : growing;
        specs.push_back({std::min(ring, growing), h.n_kv_heads, h.head_dim, type, ring < growing});
    }
    return specs;
}

Positions held_positions(const PlaneSpec &plane, uint32_t position, uint32_t high_water) {
    const uint32_t lost = plane.ring && high_water > plane.rows ? high_water - plane.rows : 0;
    return {std::min(lost, position), position};
}

RewindLimit::RewindLimit(const HParams &h, const std::vector<PlaneSpec> &planes) {
    uint32_t tightest = UINT32_MAX;
    for (size_t i = 0; i < planes.size(); ++i) {
        if (!planes[i].ring || planes[i].rows - h.layers[i].window >= tightest)
            continue;
        tightest = planes[i].rows - h.layers[i].window;
        rows_ = planes[i].rows;
        window_ = h.layers[i].window;
    }
}

uint32_t RewindLimit::lowest() const {
    if (rows_ == 0 || high_water_ <= rows_)
        return 0;
    // The next row at position p reads keys from p - window + 1 on; positions below high_water - rows are lost.
    return high_water_ - rows_ + window_ - 1;
}

} // namespace muser
