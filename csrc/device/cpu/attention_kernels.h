// One segment of attention (see attention.h), written once over f32x16: scores, softmax, weighted values.
// Blocks of kBlockQueries query vectors share every loaded key and value; each result element stays one chain.
// Included by ops_<level>.cpp after vector_math.h.
namespace muser::cpu::MUSER_LEVEL {
namespace {

template <class T, class U> inline T smaller(T a, U b) { return b < a ? T(b) : a; }
template <class T, class U> inline T larger(T a, U b) { return b > a ? T(b) : a; }

// Half planes stream from memory, and the hardware's own prefetch stops at every page: tiles are fetched this
// many bytes ahead of their use, first a segment's keys, then its values (that is long enough for the latency
// of memory, and not past the segment, whose successor may be another thread's).
constexpr size_t kPrefetchBytes = 8192;
inline void prefetch(const uint16_t *next) { __builtin_prefetch(next, 0, 2); }
inline void prefetch(const int8_t *next) { __builtin_prefetch(next, 0, 2); }
inline void prefetch(const float *) {} // converted keys and values are in the cache already

// How many of `n` to take at once, at most `most`: parts of nearly equal size.
inline int even_part(int n, int most) {
    const int parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
}

// scores[i][16 v + lane] = scale * sum over d of query[i][d] * key[16 v + lane][d], d ascending, for Q queries
// and V tiles. The order of the loads keeps all accumulators and broadcasts in registers.
template <int Q, int V, class T>
inline void score_block(const float *const *queries, const T *const *tiles, int ahead, uint32_t head_dim, float scale, float *scores) {
    constexpr int kParts = 16 / kRegisterLanes; // registers of a tile
    Register chains[Q][V * kParts];
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < V * kParts; ++v)
            chains[i][v] = fill_register(0.0f);
    for (uint32_t d = 0; d < head_dim; ++d) {
        Register q[Q];
        for (int i = 0; i < Q; ++i)
            q[i] = fill_register(queries[i][d]);
        for (int v = 0; v < V * kParts; ++v) {
            const T *from = tiles[v / kParts] + size_t{d} * kTileKeys + v % kParts * kRegisterLanes;
            if (v % kParts == 0)
                prefetch(tiles[ahead + v / kParts] + size_t{d} * kTileKeys);
            const Register keys = load_register(from);
            for (int i = 0; i < Q; ++i)
                chains[i][v] = multiply_add(q[i], keys, chains[i][v]);
        }
    }
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < V * kParts; ++v)
            store_register(scores + size_t(i) * kSegmentKeys + v * kRegisterLanes, multiply(chains[i][v], fill_register(scale)));
}

// out[i][16 columns each of V] += weight[i][j] * value[j], for the n keys j in ascending order.
template <int Q, int V, class T>
inline void value_block(float *const *outs, size_t column, const float *const *weights, const T *values, size_t width, int n, size_t ahead) {
    constexpr int kRegisters = V * 16 / kRegisterLanes;
    Register chains[Q][kRegisters];
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < kRegisters; ++v)
            chains[i][v] = load_register(outs[i] + column + v * kRegisterLanes);
    const T *row = values + column;
    for (int j = 0; j < n; ++j, row += width) {
        Register w[Q];
        for (int i = 0; i < Q; ++i)
            w[i] = fill_register(weights[i][j]);
        for (int v = 0; v < kRegisters; ++v) {
            if (v * kRegisterLanes % 32 == 0)
                prefetch(row + v * kRegisterLanes + ahead);
            const Register value = load_register(row + v * kRegisterLanes);
            for (int i = 0; i < Q; ++i)
                chains[i][v] = multiply_add(w[i], value, chains[i][v]);
        }
    }
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < kRegisters; ++v)
            store_register(outs[i] + column + v * kRegisterLanes, chains[i][v]);
}

// Run-time sizes to template arguments.
template <int Q, int V, class T>
inline void score_vectors(int v, const float *const *queries, const T *const *tiles, int ahead, uint32_t head_dim, float scale,
                          float *scores) {
    if constexpr (V > 1)
        if (v < V)
            return score_vectors<Q, V - 1>(v, queries, tiles, ahead, head_dim, scale, scores);
    score_block<Q, V>(queries, tiles, ahead, head_dim, scale, scores);
}

template <int Q, class T>
inline void score_queries(int q, int n_tiles, const float *const *queries, const T *const *tiles, int ahead, uint32_t head_dim,
                          float scale, float *scores) {
    if constexpr (Q > 1)
        if (q < Q)
            return score_queries<Q - 1>(q, n_tiles, queries, tiles, ahead, head_dim, scale, scores);
    for (int t = 0; t < n_tiles;) {
        const int v = even_part(n_tiles - t, block_vectors(Q));
        score_vectors<Q, block_vectors(Q)>(v, queries, tiles + t, ahead, head_dim, scale, scores + t * kTileKeys);
        t += v;
    }
}

template <int Q, int V, class T>
inline void value_vectors(int v, float *const *outs, size_t column, const float *const *weights, const T *values, size_t width,
                          int n, size_t ahead) {
    if constexpr (V > 1)
        if (v < V)
            return value_vectors<Q, V - 1>(v, outs, column, weights, values, width, n, ahead);
    value_block<Q, V>(outs, column, weights, values, width, n, ahead);
}

template <int Q, class T>
inline void value_queries(int q, float *const *outs, const float *const *weights, const T *values, size_t width, int n, size_t ahead) {
    if constexpr (Q > 1)
        if (q < Q)
            return value_queries<Q - 1>(q, outs, weights, values, width, n, ahead);
    for (size_t column = 0; column < width;) {
        const int v = even_part(int(width - column) / 16, block_vectors(Q));
        value_vectors<Q, block_vectors(Q)>(v, outs, column, weights, values, width, n, ahead);
        column += size_t(v) * 16;
    }
}

// Keys first[i]..last[i] (within the segment) of Q query vectors with alike ranges: scores become weights; sets max and
// sum. Side by side, because a maximum that everything after it waits for and a sum are chains. Where one query sees less
// than another its scores are hidden ones: e^-inf adds nothing.
template <int Q> inline void softmax(float *scores, const int *first, const int *last, const SoftmaxState *results) {
    const float hidden = -__builtin_inff();
    int begin = first[0] & ~15, end = (last[0] + 16) & ~15;
    for (int q = 1; q < Q; ++q) {
        begin = smaller(begin, first[q] & ~15);
        end = larger(end, (last[q] + 16) & ~15);
    }
    f32x16 top[Q], total[Q];
    for (int q = 0; q < Q; ++q) {
        float *of_query = scores + size_t(q) * kSegmentKeys;
        for (int i = begin; i < first[q]; ++i)
            of_query[i] = hidden;
        for (int i = last[q] + 1; i < end; ++i)
            of_query[i] = hidden;
        top[q] = set1(hidden);
        total[q] = set1(0.0f);
    }
    for (int i = begin; i < end; i += 16)
        for (int q = 0; q < Q; ++q)
            top[q] = max(top[q], load(scores + size_t(q) * kSegmentKeys + i));
    for (int q = 0; q < Q; ++q) {
        *results[q].max = max_of(top[q]);
        top[q] = set1(*results[q].max);
    }
    for (int i = begin; i < end; i += 16)
        for (int q = 0; q < Q; ++q) {
            float *at = scores + size_t(q) * kSegmentKeys + i;
            const f32x16 weight = exp(load(at) - top[q]);
            store(at, weight);
            total[q] = total[q] + weight;
        }
    for (int q = 0; q < Q; ++q)
        *results[q].sum = sum(total[q]);
}

template <int Q> inline void softmax_queries(int q, float *scores, const int *first, const int *last, const SoftmaxState *results) {
    if constexpr (Q > 1)
        if (q < Q)
            return softmax_queries<Q - 1>(q, scores, first, last, results);
    softmax<Q>(scores, first, last, results);
}

inline void convert(const uint16_t *from, float *to, size_t n, const uint16_t *next) {
    for (size_t i = 0; i < n; i += 16) {
        prefetch(next + i);
        store(to + i, load(from + i));
    }
}
inline void convert(const float *, float *, size_t, const float *) {} // float planes are read in place

// A tile of sixteen positions in q8_0, [width][16] of keys or [16][width] of values. An integer below 2^7 times a float16
// is exact in float32: attention over q8_0 is attention over a float plane of these products.
inline void convert_keys(const int8_t *from, float *to, uint32_t width, const int8_t *next) {
    const auto *scales = reinterpret_cast<const uint16_t *>(from + size_t{kTileKeys} * width);
    for (uint32_t d = 0; d < width; d += kKvBlock) {
        const f32x16 scale = load(scales + size_t{d / kKvBlock} * kTileKeys);
        prefetch(next + size_t{kTileKeys} * width + d);
        for (size_t i = size_t{d} * kTileKeys; i < size_t{d + kKvBlock} * kTileKeys; i += 16) {
            if (i % 64 == 0)
                prefetch(next + i);
            store(to + i, load(from + i) * scale);
        }
    }
}
inline void convert_values(const int8_t *from, float *to, uint32_t width, int first, int n, const int8_t *next) {
    alignas(64) float scales[kMaxHeadDim / kKvBlock * kTileKeys];
    for (size_t i = 0; i < size_t{width / kKvBlock} * kTileKeys; i += 16) {
        prefetch(next + size_t{kTileKeys} * width + 2 * i);
        store(scales + i, load(reinterpret_cast<const uint16_t *>(from + size_t{kTileKeys} * width) + i));
    }
    for (int j = first; j < first + n; ++j)
        for (uint32_t d = 0; d < width; d += kKvBlock, to += kKvBlock) {
            const size_t at = size_t(j) * width + d;
            const f32x16 scale = set1(scales[d / kKvBlock * kTileKeys + size_t(j)]);
            if (at % 64 == 0)
                prefetch(next + at);
            store(to, load(from + at) * scale);
            store(to + 16, load(from + at + 16) * scale);
        }
}

// One segment; positions below are relative to its first key.
template <class T> class Segment {
  public:
    explicit Segment(const SegmentTask &task) : task_(task), n_(task.n_rows * task.n_heads) {
        const int64_t base = task.segment * kSegmentKeys;
        for (int r = 0; r < task.n_rows; ++r) {
            first_[r] = int(task.ranges[r].first - base);
            last_[r] = int(task.ranges[r].last - base);
            for (int h = 0; h < task.n_heads; ++h)
                row_[r * task.n_heads + h] = uint8_t(r);
        }
        base_ = uint32_t(base);
        lo_ = first_[0]; // both ends ascend with the rows
        hi_ = last_[task.n_rows - 1];
    }

    void run() {
        scores();
        for (int i = 0, q; i < n_; i += q) {
            q = block_of(n_ - i);
            int first[kBlockQueries], last[kBlockQueries];
            for (int k = 0; k < q; ++k) {
                first[k] = first_[row_[i + k]];
                last[k] = last_[row_[i + k]];
            }
            softmax_queries<kBlockQueries>(q, scores_of(i), first, last, task_.results + i);
        }
        values();
    }

  private:
    // Of float16, converting once pays as soon as more than one block of queries reads the result.
    bool converts() const { return kQuantized || (sizeof(T) == 2 && n_ > kBlockQueries); }
    float *scores_of(int i) const { return task_.scratch.scores + size_t(i) * kSegmentKeys; }

    // A converted group of tiles stays in the first-level cache while every query passes over it.
    int group_tiles() const {
        if (!converts())
            return kSegmentKeys / kTileKeys;
        const int fit = int(kGroupFloats / (task_.plane.head_dim * kTileKeys));
        return fit < kMinGroupTiles ? kMinGroupTiles : fit > kMaxGroupTiles ? kMaxGroupTiles : fit;
    }

    void scores() {
        const size_t tile_size = size_t{task_.plane.head_dim} * kTileKeys;
        const int first_tile = lo_ / 16, n_tiles = hi_ / 16 - first_tile + 1;
        const int fetched = ahead_tiles();
        // The tiles of keys, and after them what is to be fetched next: the first values.
        const T *tiles[kSegmentKeys / kTileKeys + kMaxAheadTiles];
        for (int t = 0; t < n_tiles; ++t)
            tiles[t] = task_.plane.template key_tile<T>(base_ + uint32_t(first_tile + t) * 16, task_.kv_head);
        for (int t = 0; t < fetched; ++t)
            tiles[n_tiles + t] = value_tile(first_tile + t);

        for (int t = 0, n; t < n_tiles; t += n) {
            n = smaller(group_tiles(), n_tiles - t);
            const float *converted[kMaxGroupTiles];
            if (converts())
                for (int v = 0; v < n; ++v) {
                    float *to = task_.scratch.keys + size_t(v) * tile_size;
                    if constexpr (kQuantized)
                        convert_keys(tiles[t + v], to, task_.plane.head_dim, tiles[t + v + fetched]);
                    else
                        convert(tiles[t + v], to, tile_size, tiles[t + v + fetched]);
                    converted[v] = to;
                }
            const int position = (first_tile + t) * 16;
            for (int i = 0, q; i < n_; i += q) {
                q = block_of(n_ - i);
                const int seen = last_[row_[i + q - 1]] - position; // by the last of this block, from the first key on
                if (seen < 0 || first_[row_[i]] >= position + n * 16)
                    continue;
                const int n_seen = smaller(n, seen / 16 + 1);
                float *to = scores_of(i) + position;
                if (converts())
                    score_queries<kBlockQueries>(q, n_seen, task_.queries + i, converted, 0, task_.plane.head_dim, task_.scale, to);
                else if constexpr (!kQuantized)
                    score_queries<kBlockQueries>(q, n_seen, task_.queries + i, tiles + t, fetched, task_.plane.head_dim,
                                                 task_.scale, to);
            }
        }
    }

    int ahead_tiles() const {
        const int tiles = int(kPrefetchBytes / (size_t{task_.plane.head_dim} * kTileKeys * sizeof(T)));
        return tiles < 1 ? 1 : smaller(tiles, kMaxAheadTiles);
    }
    // What to fetch in the place of a tile of values: past the last one, the keys of the next segment.
    const T *fetched_with(int tile) const {
        const int beyond = tile - hi_ / 16;
        if (beyond <= 0 || !task_.next)
            return value_tile(smaller(tile, hi_ / 16));
        return static_cast<const T *>(task_.next) + size_t(beyond - 1) * PlaneView::tile_size<T>(task_.plane.head_dim);
    }
    const T *value_tile(int tile) const {
        return task_.plane.template value_row<T>(base_ + uint32_t(tile) * 16, task_.kv_head);
    }

    void values() {
        const size_t width = task_.plane.value_width;
        for (int i = 0; i < n_; ++i)
            for (size_t d = 0; d < width; d += 16)
                store(task_.results[i].out + d, set1(0.0f));
        // Rows of a chunk are contiguous (it never straddles a block), and it stays in the first-level cache while
        // every query and column passes over it: the narrower, the more, and half as many once they are floats.
        const int fit = width > 128 ? 1 : width > 64 ? 2 : 4;
        const int chunk_keys = kValueChunk * (converts() && fit > 1 ? fit / 2 : fit);
        for (int c = lo_ & ~(chunk_keys - 1); c <= hi_; c += chunk_keys) {
            const int from = larger(c, lo_), to = smaller(c + chunk_keys - 1, hi_);
            const T *rows = task_.plane.template value_row<T>(base_ + uint32_t(from), task_.kv_head);
            const T *next = fetched_with(from / 16 + ahead_tiles());
            if constexpr (kQuantized) {
                convert_rows(from, to, next);
                chunk(from, to, static_cast<const float *>(task_.scratch.values), 0);
            } else if (converts()) {
                convert(rows, task_.scratch.values, size_t(to - from + 1) * width, next);
                chunk(from, to, static_cast<const float *>(task_.scratch.values), 0);
            } else {
                chunk(from, to, rows, next > rows ? size_t(next - rows) : 0);
            }
        }
    }

    // Value rows from..to of q8_0, tile by tile.
    void convert_rows(int from, int to, const int8_t *next) {
        const uint32_t width = task_.plane.value_width;
        for (int at = from, n; at <= to; at += n, next += PlaneView::tile_size<int8_t>(width)) {
            n = smaller(16 - at % 16, to - at + 1);
            convert_values(value_tile(at / 16), task_.scratch.values + size_t(at - from) * width, width, at % 16, n, next);
        }
    }

    // Keys from..to, whose value rows start at `rows`. A query's hidden keys are not touched: a block takes those together
    // that all of its queries see, and each query on its own what it sees before and after them.
    template <class U> void chunk(int from, int to, const U *rows, size_t ahead) {
        for (int i = 0, q; i < n_; i += q) {
            q = block_of(n_ - i);
            const int first = larger(first_[row_[i + q - 1]], from), last = smaller(last_[row_[i]], to); // both ends ascend
            if (first > last) {
                for (int k = i; k < i + q; ++k)
                    block(k, 1, larger(first_[row_[k]], from), smaller(last_[row_[k]], to), from, rows, ahead);
                continue;
            }
            for (int k = i; k < i + q; ++k)
                block(k, 1, larger(first_[row_[k]], from), first - 1, from, rows, ahead);
            block(i, q, first, last, from, rows, ahead);
            for (int k = i; k < i + q; ++k)
                block(k, 1, last + 1, smaller(last_[row_[k]], to), from, rows, ahead);
        }
    }

    template <class U> void block(int i, int q, int first, int last, int from, const U *rows, size_t ahead) {
        if (first > last)
            return;
        float *outs[kBlockQueries];
        const float *weights[kBlockQueries];
        for (int k = 0; k < q; ++k) {
            outs[k] = task_.results[i + k].out;
            weights[k] = scores_of(i + k) + first;
        }
        value_queries<kBlockQueries>(q, outs, weights, rows + size_t(first - from) * task_.plane.value_width,
                                  task_.plane.value_width, last - first + 1, ahead);
    }

    const SegmentTask &task_;
    const int n_;
    int first_[kMaxTaskRows], last_[kMaxTaskRows];
    uint8_t row_[kMaxTaskQueries]; // of each query vector: a division for every step of a block would show
    uint32_t base_;
    int lo_, hi_;
    static constexpr int kMaxAheadTiles = 4;
    static constexpr bool kQuantized = sizeof(T) == 1;
};

void attend_segment(const SegmentTask &task) {
    switch (task.plane.type) {
    case KvType::f16: return Segment<uint16_t>(task).run();
    case KvType::f32: return Segment<float>(task).run();
    case KvType::q8_0: return Segment<int8_t>(task).run();
    }
}

// Both parts rescaled to the larger maximum. An e^0 factor is exactly 1.
void merge_segment(SoftmaxState into, SoftmaxState from, size_t width) {
    const float top = *into.max > *from.max ? *into.max : *from.max;
    alignas(64) float factors[16] = {*into.max - top, *from.max - top};
    store(factors, exp(load(factors)));
    const f32x16 a = set1(factors[0]), b = set1(factors[1]);
    *into.max = top;
    *into.sum = __builtin_fmaf(*from.sum, factors[1], *into.sum * factors[0]);
    for (size_t d = 0; d < width; d += 16)
        store(into.out + d, fma(load(from.out + d), b, load(into.out + d) * a));
}

void finish_attention(SoftmaxState state, float *out, size_t head_dim) {
    const f32x16 inverse = set1(1.0f / *state.sum);
    map(out, head_dim, [=](f32x16 v) { return v * inverse; }, static_cast<const float *>(state.out));
}

} // namespace
} // namespace muser::cpu::MUSER_LEVEL
