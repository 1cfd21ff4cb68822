// One segment of attention (see attention.h), written once over f32x16: scores, softmax, weighted values.
// Blocks of kBlockQueries query vectors share every loaded key and value; each result element stays one chain.
// Included by ops_<level>.cpp after vector_math.h.
namespace muser::cpu::MUSER_LEVEL {
namespace {

template <class T, class U> inline T smaller(T a, U b) { return b < a ? T(b) : a; }
template <class T, class U> inline T larger(T a, U b) { return b > a ? T(b) : a; }

// scores[i][16 v + lane] = scale * sum over d of query[i][d] * key[d], d ascending.
template <int Q, int V, class T>
inline void score_block(const float *const *queries, const T *const *tiles, uint32_t head_dim, float scale, float *scores) {
    f32x16 chains[Q][V];
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < V; ++v)
            chains[i][v] = set1(0.0f);
    for (uint32_t d = 0; d < head_dim; ++d) {
        f32x16 keys[V];
        for (int v = 0; v < V; ++v)
            keys[v] = load(tiles[v] + size_t{d} * kTileKeys);
        for (int i = 0; i < Q; ++i) {
            const f32x16 q = set1(queries[i][d]);
            for (int v = 0; v < V; ++v)
                chains[i][v] = fma(q, keys[v], chains[i][v]);
        }
    }
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < V; ++v)
            store(scores + size_t(i) * kSegmentKeys + v * kTileKeys, chains[i][v] * set1(scale));
}

// out[i][d] += weight[i][j] * value[j][d] for the n keys j in ascending order.
template <int Q, int V, class T>
inline void value_block(float *const *outs, size_t column, const float *const *weights, const T *values, size_t stride, int n) {
    f32x16 chains[Q][V];
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < V; ++v)
            chains[i][v] = load(outs[i] + column + v * 16);
    for (int j = 0; j < n; ++j) {
        f32x16 row[V];
        for (int v = 0; v < V; ++v)
            row[v] = load(values + j * stride + column + v * 16);
        for (int i = 0; i < Q; ++i) {
            const f32x16 w = set1(weights[i][j]);
            for (int v = 0; v < V; ++v)
                chains[i][v] = fma(w, row[v], chains[i][v]);
        }
    }
    for (int i = 0; i < Q; ++i)
        for (int v = 0; v < V; ++v)
            store(outs[i] + column + v * 16, chains[i][v]);
}

// Run-time sizes to template arguments: the largest block that fits.
template <int Q, int V, class T>
inline void score_any(int q, int v, const float *const *queries, const T *const *tiles, uint32_t head_dim, float scale,
                      float *scores) {
    if constexpr (Q > 1)
        if (q < Q)
            return score_any<Q - 1, V>(q, v, queries, tiles, head_dim, scale, scores);
    if constexpr (V > 1)
        if (v < V)
            return score_any<Q, V - 1>(q, v, queries, tiles, head_dim, scale, scores);
    score_block<Q, V>(queries, tiles, head_dim, scale, scores);
}

template <int Q, class T>
inline void values_any(int q, float *const *outs, const float *const *weights, const T *values, size_t width, size_t stride,
                       int n) {
    if constexpr (Q > 1)
        if (q < Q)
            return values_any<Q - 1>(q, outs, weights, values, width, stride, n);
    size_t column = 0;
    for (; column + 16 * kBlockVectors <= width; column += 16 * kBlockVectors)
        value_block<Q, kBlockVectors>(outs, column, weights, values, stride, n);
    if constexpr (kBlockVectors > 2)
        for (; column + 32 <= width; column += 32)
            value_block<Q, 2>(outs, column, weights, values, stride, n);
    for (; column < width; column += 16)
        value_block<Q, 1>(outs, column, weights, values, stride, n);
}

// Keys first..last (within the segment) of one query vector: scores become weights; sets max and sum.
inline void softmax(float *scores, int first, int last, SoftmaxState result) {
    const float hidden = -__builtin_inff();
    for (int i = first & ~15; i < first; ++i)
        scores[i] = hidden;
    for (int i = last + 1; i < ((last + 16) & ~15); ++i)
        scores[i] = hidden;
    f32x16 top = set1(hidden);
    for (int i = first & ~15; i <= last; i += 16)
        top = max(top, load(scores + i));
    const float m = max_of(top);
    f32x16 total = set1(0.0f);
    for (int i = first & ~15; i <= last; i += 16) {
        const f32x16 weight = exp(load(scores + i) - set1(m));
        store(scores + i, weight);
        total = total + weight;
    }
    *result.max = m;
    *result.sum = sum(total);
}

inline void convert(const uint16_t *from, float *to, size_t n) {
    for (size_t i = 0; i < n; i += 16)
        store(to + i, load(from + i));
}
inline void convert(const float *, float *, size_t) {} // float planes are read in place

// One segment; positions below are relative to its first key.
template <class T> class Segment {
  public:
    explicit Segment(const SegmentTask &task) : task_(task), n_(task.n_rows * task.n_heads) {
        const int64_t base = task.segment * kSegmentKeys;
        for (int r = 0; r < task.n_rows; ++r) {
            first_[r] = int(task.ranges[r].first - base);
            last_[r] = int(task.ranges[r].last - base);
        }
        base_ = uint32_t(base);
        lo_ = first_[0]; // both ends ascend with the rows
        hi_ = last_[task.n_rows - 1];
    }

    void run() {
        scores();
        for (int i = 0; i < n_; ++i)
            softmax(row_of(i), first_[i / task_.n_heads], last_[i / task_.n_heads], task_.results[i]);
        values();
    }

  private:
    // Converting once pays as soon as more than one block of queries reads the result.
    bool converts() const { return sizeof(T) == 2 && n_ > kBlockQueries; }
    float *row_of(int i) const { return task_.scratch.scores + size_t(i) * kSegmentKeys; }

    void scores() {
        const size_t tile_size = size_t{task_.plane.head_dim} * kTileKeys;
        for (int t = lo_ / 16; t <= hi_ / 16; t += kBlockVectors) {
            const int n_tiles = smaller(kBlockVectors, hi_ / 16 - t + 1);
            const T *tiles[kBlockVectors];
            const float *converted[kBlockVectors];
            for (int v = 0; v < n_tiles; ++v) {
                tiles[v] = task_.plane.template key_tile<T>(base_ + uint32_t(t + v) * 16, task_.kv_head);
                if (converts()) {
                    float *to = task_.scratch.keys + size_t(v) * tile_size;
                    convert(tiles[v], to, tile_size);
                    converted[v] = to;
                }
            }
            for (int i = 0; i < n_; i += kBlockQueries) {
                const int q = smaller(kBlockQueries, n_ - i);
                if (last_[(i + q - 1) / task_.n_heads] < t * 16 || first_[i / task_.n_heads] >= (t + n_tiles) * 16)
                    continue; // nobody of this block sees these tiles
                float *to = row_of(i) + t * 16;
                if (converts())
                    score_any<kBlockQueries, kBlockVectors>(q, n_tiles, task_.queries + i, converted, task_.plane.head_dim,
                                                            task_.scale, to);
                else
                    score_any<kBlockQueries, kBlockVectors>(q, n_tiles, task_.queries + i, tiles, task_.plane.head_dim,
                                                            task_.scale, to);
            }
        }
    }

    void values() {
        const size_t width = task_.plane.value_width, stride = task_.plane.n_kv_heads * width;
        for (int i = 0; i < n_; ++i)
            for (size_t d = 0; d < width; d += 16)
                store(task_.results[i].out + d, set1(0.0f));
        for (int c = lo_ & ~(kValueChunk - 1); c <= hi_; c += kValueChunk) {
            const int from = larger(c, lo_), to = smaller(c + kValueChunk - 1, hi_);
            const T *rows = task_.plane.template value_row<T>(base_ + uint32_t(from), task_.kv_head);
            if (converts()) {
                for (int j = 0; j <= to - from; ++j)
                    convert(rows + j * stride, task_.scratch.values + j * width, width);
                chunk(from, to, static_cast<const float *>(task_.scratch.values), width);
            } else {
                chunk(from, to, rows, stride);
            }
        }
    }

    // Keys from..to, whose value rows start at `rows`. A query's hidden keys are not touched: a block takes
    // one step together only where all of its queries see the same of these keys.
    template <class U> void chunk(int from, int to, const U *rows, size_t stride) {
        for (int i = 0; i < n_; i += kBlockQueries) {
            const int q = smaller(kBlockQueries, n_ - i), head = i / task_.n_heads, tail = (i + q - 1) / task_.n_heads;
            const bool same = larger(first_[head], from) == larger(first_[tail], from) &&
                              smaller(last_[head], to) == smaller(last_[tail], to);
            if (same) {
                block(i, q, head, from, to, rows, stride);
            } else {
                for (int k = i; k < i + q; ++k)
                    block(k, 1, k / task_.n_heads, from, to, rows, stride);
            }
        }
    }

    template <class U> void block(int i, int q, int row, int from, int to, const U *rows, size_t stride) {
        const int first = larger(first_[row], from), last = smaller(last_[row], to);
        if (first > last)
            return;
        float *outs[kBlockQueries];
        const float *weights[kBlockQueries];
        for (int k = 0; k < q; ++k) {
            outs[k] = task_.results[i + k].out;
            weights[k] = row_of(i + k) + first;
        }
        values_any<kBlockQueries>(q, outs, weights, rows + size_t(first - from) * stride, task_.plane.value_width, stride,
                                  last - first + 1);
    }

    const SegmentTask &task_;
    const int n_;
    int first_[kMaxTaskRows], last_[kMaxTaskRows];
    uint32_t base_;
    int lo_, hi_;
};

void attend_segment(const SegmentTask &task) {
    if (task.plane.type == KvType::f16)
        Segment<uint16_t>(task).run();
    else
        Segment<float>(task).run();
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
