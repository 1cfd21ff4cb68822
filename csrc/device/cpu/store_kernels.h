// Storing a position's keys and values in a plane (plane.h), in each of its types, and the rotation that belongs to q8_0.
// Included by ops_<level>.cpp after vector_math.h.
namespace muser::cpu::MUSER_LEVEL {
namespace {

// One key into its lane of a [head_dim][16] tile.
template <class T> inline void store_key(const float *key, T *tile, size_t lane, size_t head_dim) {
    for (size_t d = 0; d < head_dim; d += 16) {
        const size_t n = head_dim - d < 16 ? head_dim - d : 16;
        T converted[16];
        store(converted, n == 16 ? load(key + d) : load_tail(key + d, n));
        for (size_t i = 0; i < n; ++i)
            tile[(d + i) * 16 + lane] = converted[i];
    }
}

// One value row; the plane pads it with zeros to whole vectors.
template <class T> inline void store_value(const float *value, T *row, size_t head_dim) {
    for (size_t d = 0; d < head_dim; d += 16)
        store(row + d, head_dim - d < 16 ? load_tail(value + d, head_dim - d) : load(value + d));
}

// A step of the transform inside one vector: lanes whose index differs in the bit Step become their sum and difference.
template <int Step> inline f32x16 butterfly(f32x16 v) {
    alignas(64) float signs[16];
    for (int i = 0; i < 16; ++i)
        signs[i] = i & Step ? -1.0f : 1.0f;
    return swap_lanes<Step>(v) + v * load(signs);
}

// The rotation of q8_0 (device.h) of one head, in place; its own inverse. Sums and differences, step by step from
// neighbours to halves, then one factor: the same bits at every level. n is a multiple of 32.
void rotate(float *x, size_t n) {
    const size_t block = n & (~n + 1); // the largest power of two that divides n
    const f32x16 factor = set1(1.0f / __builtin_sqrtf(float(block)));
    for (size_t i = 0; i < n; i += 16)
        store(x + i, butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(load(x + i))))));
    for (size_t half = 16; half < block; half *= 2)
        for (size_t i = 0; i < n; i += 16)
            if (!(i & half)) {
                const f32x16 a = load(x + i), b = load(x + i + half);
                store(x + i, a + b);
                store(x + i + half, a - b);
            }
    for (size_t i = 0; i < n; i += 16)
        store(x + i, load(x + i) * factor);
}

// One head in q8_0.
struct Quantized {
    int8_t quants[kMaxHeadDim];
    uint16_t scales[kMaxHeadDim / kKvBlock]; // float16
};

// The scale that takes a block's largest magnitude to 127. Of what is not finite: NaN or infinity.
inline float block_scale(const float *x) {
    uint32_t top = 0; // as integers, magnitudes order like the floats, with infinity and NaN on top
    for (uint32_t k = 0; k < kKvBlock; ++k) {
        uint32_t bits;
        __builtin_memcpy(&bits, x + k, sizeof(bits));
        bits &= 0x7fffffffu;
        top = bits > top ? bits : top;
    }
    float largest;
    __builtin_memcpy(&largest, &top, sizeof(largest));
    return largest / 127.0f;
}

inline void quantize(const float *x, size_t head_dim, Quantized &to) {
    alignas(64) float scales[kMaxHeadDim / kKvBlock] = {};
    static_assert(sizeof(scales) == 16 * sizeof(float));
    for (size_t b = 0; b < head_dim / kKvBlock; ++b)
        scales[b] = block_scale(x + b * kKvBlock);
    store(to.scales, load(scales));
    store(scales, load(to.scales)); // as they were rounded
    const f32x16 least = set1(-127.0f), most = set1(127.0f);
    const f32x16 to_integers = set1(0x1.8p23f); // a sum with it has no fraction: rounded to nearest even
    for (size_t d = 0; d < head_dim; d += 16) {
        const float scale = scales[d / kKvBlock];
        const bool finite = scale < __builtin_inff();
        const f32x16 inverse = set1(scale > 0.0f && finite ? 1.0f / scale : 0.0f);
        alignas(64) float rounded[16] = {}; // zeros where the scale is NaN or infinity: their products are NaN
        if (finite)
            store(rounded, max(min((load(x + d) * inverse + to_integers) - to_integers, most), least));
        for (int i = 0; i < 16; ++i)
            to.quants[d + size_t(i)] = int8_t(rounded[i]);
    }
}

void store_quantized(const PlaneView &plane, uint32_t position, uint32_t head, const float *key, const float *value) {
    const uint32_t lane = position % kTileKeys;
    alignas(64) float rotated[kMaxHeadDim];
    Quantized head_values;
    const auto rotate_and_quantize = [&](const float *x, uint16_t *scales) {
        __builtin_memcpy(rotated, x, plane.head_dim * sizeof(float));
        rotate(rotated, plane.head_dim);
        quantize(rotated, plane.head_dim, head_values);
        for (uint32_t b = 0; b < plane.head_dim / kKvBlock; ++b)
            scales[size_t{b} * kTileKeys + lane] = head_values.scales[b];
    };
    int8_t *keys = plane.key_tile<int8_t>(position, head);
    rotate_and_quantize(key, plane.scales(keys));
    for (uint32_t d = 0; d < plane.head_dim; ++d)
        keys[size_t{d} * kTileKeys + lane] = head_values.quants[d];
    int8_t *values = plane.value_tile<int8_t>(position, head);
    rotate_and_quantize(value, plane.scales(values));
    __builtin_memcpy(values + size_t{lane} * plane.value_width, head_values.quants, plane.head_dim);
}

void store_kv(const PlaneView &plane, uint32_t position, const float *keys, const float *values) {
    for (uint32_t head = 0; head < plane.n_kv_heads; ++head, keys += plane.head_dim, values += plane.head_dim) {
        switch (plane.type) {
        case KvType::f16:
            store_key(keys, plane.key_tile<uint16_t>(position, head), position % kTileKeys, plane.head_dim);
            store_value(values, plane.value_row<uint16_t>(position, head), plane.head_dim);
            break;
        case KvType::f32:
            store_key(keys, plane.key_tile<float>(position, head), position % kTileKeys, plane.head_dim);
            store_value(values, plane.value_row<float>(position, head), plane.head_dim);
            break;
        case KvType::q8_0:
            store_quantized(plane, position, head, keys, values);
            break;
        }
    }
}

} // namespace
} // namespace muser::cpu::MUSER_LEVEL
