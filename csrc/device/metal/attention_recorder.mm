// Arguments and bindings of the attention kernels (metal/store.metal, attention.h, merge.metal).
#import "device/metal/attention_recorder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "device/metal/require.h"

namespace muser::metal {

namespace {

constexpr uint32_t kThreads = 128;         // of an attention threadgroup; a head of 512 has as many columns of four
constexpr uint32_t kMaxVectors = 16;       // query vectors of a threadgroup
constexpr uint32_t kMaxQueryFloats = 4096; // of them, in threadgroup memory
constexpr uint32_t kBlockKeys = 128;       // metal/keys.h
constexpr uint32_t kGroups = 4;            // SIMD-groups of the other kernels, each with a head

uint32_t parts(uint32_t n, uint32_t of) { return (n + of - 1) / of; }

uint32_t blocks_seen(int32_t position, uint32_t window) {
    const auto last = static_cast<uint32_t>(position);
    const uint32_t first = window == 0 || last < window ? 0 : last - window + 1;
    return last / kBlockKeys - first / kBlockKeys + 1;
}

} // namespace

void AttentionRecorder::begin() {
    begin_link();
    ropes_.clear();
    tile_lists_.clear();
}

void AttentionRecorder::begin_link() {
    preparing_.reset();
    storing_.reset();
    merging_.reset();
}

void AttentionRecorder::prepare(const QkSpec &spec) {
    flush();
    preparing_ = spec;
}

void AttentionRecorder::store(const AttentionSpec &spec) {
    require(preparing_.has_value(), "keys are stored that were not prepared");
    storing_ = spec;
}

void AttentionRecorder::attend(const AttentionSpec &spec) {
    encode_attention(spec);
    merging_ = spec;
}

void AttentionRecorder::gate() {
    require(merging_.has_value(), "a gate without attention");
    encode_merge(true);
}

void AttentionRecorder::flush() {
    if (merging_)
        encode_merge(false);
    if (storing_)
        encode_store();
    require(!preparing_, "prepared keys are not stored");
}

// Which threadgroups there are. Every vector's result is the same in any of them.
AttentionRecorder::Cut AttentionRecorder::cut(const AttentionSpec &spec) const {
    Cut c{};
    const uint32_t heads = spec.n_heads / spec.n_kv_heads, most = std::min(kMaxVectors, kMaxQueryFloats / spec.head_dim);
    c.tile_heads = std::min(heads, most);
    c.head_groups = parts(heads, c.tile_heads);
    c.tile_rows = state_.few ? 1 : std::min(most / c.tile_heads, state_.n_rows());
    c.vectors = std::bit_ceil(c.tile_heads * c.tile_rows);
    return c;
}

HeadArgs AttentionRecorder::head_args(const AttentionSpec &spec) const {
    const Workspace &w = state_.workspace;
    require(spec.n_heads * spec.head_dim == w.width(Act::query) && spec.n_kv_heads * spec.head_dim == w.width(Act::key),
            "head sizes and the workspace differ");
    HeadArgs args{};
    args.n_heads = spec.n_heads;
    args.n_kv_heads = spec.n_kv_heads;
    args.head_dim = spec.head_dim;
    args.query_stride = w.stride(Act::query);
    args.key_stride = w.stride(Act::key);
    args.plane_rows = state_.sessions[0]->spec(spec.plane).rows;
    if (preparing_) {
        args.q_norm = preparing_->q_norm != nullptr;
        args.k_norm = preparing_->k_norm != nullptr;
        args.norm_eps = preparing_->norm_eps;
        args.n_pairs = preparing_->rope ? static_cast<uint32_t>(preparing_->rope->inv_freq.size()) : 0;
        args.halves = preparing_->rope && preparing_->rope->pairing == RopePairing::halves;
    }
    return args;
}

// cos and sin of every row's angles, computed once a pass, as the CPU device does: the angle is rounded to float32,
// its cosine is that of the rounded angle.
Place AttentionRecorder::angles(const RopeSpec &rope) {
    const Workspace &w = state_.workspace;
    const auto known = std::find(ropes_.begin(), ropes_.end(), &rope);
    Place place = w.angles(static_cast<uint32_t>(known - ropes_.begin()));
    if (known != ropes_.end()) {
        place.offset += w.link() * rope.inv_freq.size() * 2 * sizeof(float);
        return place;
    }
    require(ropes_.size() < kMaxRopes, "more rotary configurations than the workspace has room for");
    require(rope.inv_freq.size() <= w.rope_pairs(), "more rotary pairs than half a head");
    ropes_.push_back(&rope);
    float *to = host<float>(place);
    for (const Row &row : state_.planned)
        for (float frequency : rope.inv_freq) {
            const float angle = static_cast<float>(row.position) * frequency;
            *to++ = static_cast<float>(std::cos(static_cast<double>(angle)));
            *to++ = static_cast<float>(std::sin(static_cast<double>(angle)));
        }
    return place;
}

uint32_t AttentionRecorder::tile_list(uint32_t tile_rows, uint32_t *n_tiles) {
    const auto known = std::find_if(tile_lists_.begin(), tile_lists_.end(), [&](const auto &l) { return l.first == tile_rows; });
    const auto index = static_cast<uint32_t>(known - tile_lists_.begin());
    if (known == tile_lists_.end()) {
        require(index < kMaxTileLists, "more ways to cut rows than the workspace has room for");
        RowTile *tiles = host<RowTile>(state_.workspace.tiles(index));
        uint32_t count = 0;
        for (uint32_t first = 0, end; first < state_.n_rows(); first = end) {
            for (end = first + 1; end < state_.n_rows() && end - first < tile_rows && state_.rows[end].kv == state_.rows[first].kv;)
                ++end;
            tiles[count++] = {first, end - first};
        }
        tile_lists_.emplace_back(tile_rows, count);
    }
    *n_tiles = tile_lists_[index].second;
    return index;
}

void AttentionRecorder::bind_preparation(uint32_t q_norm, uint32_t angle_index) {
    PassEncoder &e = state_.encoder;
    const Place unused = state_.workspace.unread();
    const bool prepares = preparing_.has_value();
    e.bind(q_norm, prepares && preparing_->q_norm ? vector_of(*preparing_->q_norm) : unused);
    e.bind(q_norm + 1, prepares && preparing_->k_norm ? vector_of(*preparing_->k_norm) : unused);
    e.bind(angle_index, prepares && preparing_->rope ? angles(*preparing_->rope) : unused);
}

void AttentionRecorder::bind_planes(uint32_t first, uint32_t plane) {
    for (uint32_t i = 0; i < kMaxSessions; ++i)
        state_.encoder.bind(first + i, state_.sessions[i < state_.sessions.size() ? i : 0]->place(plane));
}

void AttentionRecorder::encode_store() {
    const AttentionSpec &spec = *storing_;
    const Workspace &w = state_.workspace;
    const KvType type = state_.sessions[0]->spec(spec.plane).type;
    const Kernel &kernel = state_.kernels.store(type);
    const uint32_t threads = kernel.threads(kGroups * 32);
    HeadArgs args = head_args(spec);
    args.n_heads = preparing_->n_heads; // none where only keys and values stay behind
    PassEncoder &e = state_.encoder;
    e.use(kernel);
    e.args(args);
    e.bind(1, w.rows());
    e.bind(2, w.act(Act::query));
    e.bind(3, w.act(Act::key));
    e.bind(4, w.act(Act::value));
    bind_preparation(5, 7);
    bind_planes(8, spec.plane);
    e.dispatch(MTLSizeMake(parts(args.n_heads + 2 * args.n_kv_heads, threads / 32), state_.n_rows(), 1), threads,
               bit(Act::query) | bit(Act::key) | bit(Act::value),
               bit(Act::query) | bit(kPlanes) | (type == KvType::q8_0 ? bit(Act::key) : 0)); // quantized from where it is prepared
    preparing_.reset();
    storing_.reset();
}

void AttentionRecorder::encode_attention(const AttentionSpec &spec) {
    const Cut c = cut(spec);
    // One threadgroup a row and kv head, and one row a session: the newest key is nobody else's business.
    // Quantizing a key takes the registers of a whole SIMD-group: that stays in a kernel of its own.
    const KvType type = state_.sessions[0]->spec(spec.plane).type;
    const bool prepares = state_.few && storing_ && c.head_groups == 1 && state_.sessions.size() == state_.rows.size() &&
                          type != KvType::q8_0;
    if (!prepares && storing_)
        encode_store();
    const Workspace &w = state_.workspace;
    const Kernel &kernel = state_.kernels.attention(type, c.vectors);
    if (kernel.threads(kThreads) < kThreads)
        throw Error(ErrorCode::unsupported_device, "this GPU runs attention with fewer than 128 threads a threadgroup");
    uint32_t n_tiles = 0;
    const uint32_t list = tile_list(c.tile_rows, &n_tiles);
    uint32_t splits = 1;
    if (state_.few)
        for (const Row &row : state_.rows)
            splits = std::max(splits, std::min(kMaxSplits, blocks_seen(row.position, spec.window)));

    AttentionArgs args{};
    args.heads = head_args(spec);
    args.scale = spec.scale;
    args.window = spec.window;
    args.tile_heads = c.tile_heads;
    args.head_groups = c.head_groups;
    args.max_splits = state_.few ? kMaxSplits : 1;
    args.prepares = prepares;
    args.out_stride = w.stride(Act::attention);
    args.in_lane_order = state_.few;
    PassEncoder &e = state_.encoder;
    e.use(kernel);
    e.args(args);
    e.bind(1, w.rows());
    e.bind(2, w.tiles(list));
    e.bind(3, w.act(Act::query));
    e.bind(4, w.act(Act::key));
    e.bind(5, w.act(Act::value));
    bind_preparation(6, 8);
    bind_planes(9, spec.plane);
    e.bind(13, w.parts());
    e.bind(14, w.part_sums());
    e.threadgroup_memory(c.vectors * (spec.head_dim + kBlockKeys + 3) * static_cast<uint32_t>(sizeof(float)));
    e.dispatch(MTLSizeMake(splits, spec.n_kv_heads * c.head_groups, n_tiles), kThreads,
               bit(Act::query) | bit(Act::key) | bit(Act::value) | bit(kPlanes), bit(kParts) | (prepares ? bit(kPlanes) : 0));
    preparing_.reset();
    storing_.reset();
    merge_args_ = args;
}

void AttentionRecorder::encode_merge(bool gated) {
    const Workspace &w = state_.workspace;
    const Kernel &kernel = state_.kernels.merge_attention();
    const uint32_t threads = kernel.threads(kGroups * 32);
    merge_args_.gated = gated;
    PassEncoder &e = state_.encoder;
    e.use(kernel);
    e.args(merge_args_);
    e.bind(1, w.rows());
    e.bind(2, w.parts());
    e.bind(3, w.part_sums());
    e.bind(4, gated ? w.act(Act::gate) : w.unread());
    e.bind(5, w.act(Act::attention));
    e.dispatch(MTLSizeMake(parts(merging_->n_heads, threads / 32), state_.n_rows(), 1), threads,
               bit(kParts) | (gated ? bit(Act::gate) : 0), bit(Act::attention));
    merging_.reset();
}

} // namespace muser::metal
