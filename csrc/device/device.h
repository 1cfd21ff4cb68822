// The device interface: a dozen ops over row batches between begin() and commit_and_wait().
// The forward graph (csrc/model) calls it; cpu/, metal/ and fault/ implement it. One thread at a time
// uses a device (the scheduler's permit). Ops only record; commit_and_wait() runs all of them.
//
// Exactness is a duty of every implementation: each output element is one reduction in one fixed order
// that does not depend on how many rows, chunks or threads there are.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/wait.h"
#include "gguf/block_type.h"

namespace muser {

// A matrix or vector of the file, as the model sees it. Row-major: `rows` outputs of `cols` inputs.
struct TensorView {
    std::string_view name;
    gguf::BlockType type;
    uint64_t rows;
    uint64_t cols;
    std::span<const std::byte> data; // in the file's block format
    const MappedFile *file = nullptr; // of which data is a part; null: data is ordinary memory
};

enum class WeightUse {
    vector,           // norms and biases: used as float32
    matrix,           // multiplied
    lookup,           // only rows are read (an untied token embedding)
    head,             // multiplied, for logits
    head_and_lookup   // both (a tied token embedding)
};

struct WeightSource {
    TensorView view;
    WeightUse use;
};

// A device's own form of a weight. Immutable after load.
class Weight {
  public:
    virtual ~Weight() = default;
    uint64_t rows = 0;
    uint64_t cols = 0;
};

// How keys and values are kept. q8_0: each head's key and value is rotated (the orthonormal Walsh-Hadamard transform of
// its longest blocks of 2^k values) and rounded, in blocks of 32, to int8 times a float16 scale. A rotation leaves no
// value that is far larger than its neighbours, so a block's scale suits all of it; queries are rotated alike, which
// leaves the scores as they were, and attention's output is rotated back.
enum class KvType { f16, f32, q8_0 };

inline constexpr uint32_t kKvBlock = 32; // values of one scale of q8_0; head_dim is a multiple

// Bytes of n values of one head, wherever they are.
constexpr uint64_t kv_bytes(KvType type, uint64_t n) {
    return type == KvType::q8_0 ? n / kKvBlock * (kKvBlock + 2) : n * (type == KvType::f16 ? 2 : 4);
}

// The keys and values of one layer of one session. A growing plane has `rows` = capacity; a ring keeps
// position p in row p % rows. The layout inside a row is the device's secret.
struct PlaneSpec {
    uint32_t rows;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    KvType type;
    bool ring;
};

struct Positions { // begin <= p < end
    uint32_t begin, end;
};

// All planes of one session, indexed by layer. Memory is committed as rows are first written. The ways to
// move rows are for sessions at rest: no pass uses the store meanwhile. A ring must still hold the positions.
class KvStore {
  public:
    virtual ~KvStore() = default;
    // Out of and into one form for all devices: row by row, keys [n_kv_heads][head_dim], then values likewise,
    // each element in the plane's type (a head of q8_0: all its int8, then their scales).
    virtual void read_rows(uint32_t plane, Positions positions, std::byte *out) const = 0;
    virtual void write_rows(uint32_t plane, Positions positions, const std::byte *in) = 0;
    // The first `written` rows of every plane (of a shorter one: all) become those of a store of the same device and
    // specs.
    virtual void copy(const KvStore &from, uint32_t written) = 0;
};

struct Row {
    KvStore *kv;
    int32_t token;
    int32_t position;
};

// What a pass is for. A device may choose faster kernels for a decode group (one row each of a few sessions); rows of
// a prefill are bit-identical however a prompt is cut into passes. A verify is a prefill whose every logits row counts.
enum class PassKind { decode, prefill };

// How a prefill pass lets others have the device between two of its steps. The thread that commits calls both.
struct Pauses {
    std::function<bool()> wanted; // after every step: must be quick, and must not throw
    // Meanwhile other threads may use the device for decode passes of up to kRowsBeside rows. Throws to give the pass up,
    // even while another thread uses the device; the next prefill to begin takes its place.
    std::function<void()> pause;
};

inline constexpr uint32_t kRowsBeside = 4; // of a pass that runs while another one is paused

// The named float32 activation buffers of one pass, each [rows, width].
enum class Act : uint8_t {
    residual,  // X
    normed,    // A, B: input of the projections
    query,     // Q
    key,       // K
    value,     // U
    gate,      // Z: attention output gate, before the sigmoid
    attention, // O
    branch,    // Y or C: what the block adds to the residual
    ffn_gate,
    ffn_up,
    count
};

inline constexpr size_t kMostLinks = 16;    // passes of one greedy chain
inline constexpr size_t kLinksInFlight = 3; // one runs, one waits behind it, one is being looked at

struct WorkspaceSpec {
    uint32_t max_rows;      // most rows of one pass
    uint32_t max_logit_rows; // most rows whose logits one pass returns
    uint32_t max_taps;      // most tap() calls of one pass
    uint32_t vocab;
    uint32_t widths[static_cast<size_t>(Act::count)]; // 0: the model does not use it
};

enum class EmbedOp { none, scale, rms }; // what happens to a token's row: nothing, times x, or RMS norm with eps x

struct Projection {
    const Weight *weight;
    const Weight *bias; // may be null
    Act out;
};

enum class RopePairing { adjacent, halves }; // (2k, 2k+1) as in llama and Muse; (k, k + n/2) as in NeoX

// One rotary configuration; layers share them by index. angle(p, k) = p * inv_freq[k].
struct RopeSpec {
    std::vector<float> inv_freq; // [n_rot / 2]
    RopePairing pairing;
};

struct QkSpec { // per layer
    const Weight *q_norm; // [head_dim], may be null
    const Weight *k_norm;
    float norm_eps;
    const RopeSpec *rope; // null: NoPE layer
    uint32_t n_heads; // 0: only the keys
    uint32_t n_kv_heads; // 0: only the queries
    uint32_t head_dim;
};

struct AttentionSpec { // per layer
    uint32_t plane; // index into the session's KvStore
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    float scale;     // multiplied into Q.K
    uint32_t window; // 0: full. Key j is visible to query i iff i - window < j <= i
};

enum class Activation { silu, gelu_tanh };

struct HeadSpec {
    const Weight *norm; // final RMS norm
    float norm_eps;
    const Weight *weight;
    const Weight *bias; // may be null
    float logit_scale;  // 1: none
    float softcap;      // 0: none; else cap * tanh(x / cap)
};

struct DeviceInfo {
    std::string name;        // "cpu"
    std::string description; // for people: "AMD EPYC, avx2, 2 threads"
    bool decode_equals_prefill = true; // a row has the same bits from a decode and from a prefill
    int host_threads = 0;    // of the processor, that a pass keeps busy
    // A device that draws the display as well wants no prefill pass to take longer than this; zero: it does not care.
    std::chrono::milliseconds longest_prefill{0};
    bool pauses = false; // commit_pausing() does
};

class Device {
  public:
    virtual ~Device() = default;
    virtual DeviceInfo info() const = 0;

    // Bytes that load_weight() / make_kv() / set_workspace() will take, exactly, for memory_plan().
    virtual uint64_t weight_bytes(const TensorView &tensor, WeightUse use) const = 0;
    virtual uint64_t kv_bytes(std::span<const PlaneSpec> planes) const = 0;
    virtual uint64_t workspace_bytes(const WorkspaceSpec &spec) const = 0;

    // The view's bytes must stay mapped while the Weight lives only if keeps_file(use) is true.
    virtual std::unique_ptr<Weight> load_weight(const TensorView &tensor, WeightUse use) = 0;
    // A whole model's, in this order; a device may read them side by side and into common memory.
    virtual std::vector<std::unique_ptr<Weight>> load_weights(std::span<const WeightSource> sources) {
        std::vector<std::unique_ptr<Weight>> weights;
        for (const WeightSource &source : sources)
            weights.push_back(load_weight(source.view, source.use));
        return weights;
    }
    virtual bool keeps_file(gguf::BlockType type, WeightUse use) const = 0;
    virtual std::unique_ptr<KvStore> make_kv(std::span<const PlaneSpec> planes) = 0;
    virtual void set_workspace(const WorkspaceSpec &spec) = 0;

    // ---- one pass -------------------------------------------------------------------------------
    // Rows of one session are consecutive and ascend by one; `rows` must stay alive until commit.
    virtual void begin(std::span<const Row> rows, PassKind kind) = 0;
    // Rows before this one are wanted no more: ops recorded from now on compute the others only. Indices stay.
    // Of a device that can_narrow() in the pass begun.
    virtual bool can_narrow() const { return false; }
    virtual void narrow(int) { throw Error(ErrorCode::internal, "this device computes all rows"); }
    virtual void embed(const Weight &table, EmbedOp op, float x) = 0; // -> residual
    virtual void norm(const Weight &weight, float eps) = 0;           // residual -> normed
    // All projections read the same input, so an implementation quantizes it once.
    virtual void matmul(Act in, std::span<const Projection> projections) = 0;
    virtual void qk_norm_rope(const QkSpec &spec) = 0;        // query, key in place
    virtual void kv_store(const AttentionSpec &spec) = 0;     // key, value -> plane
    virtual void attention(const AttentionSpec &spec) = 0;    // query, plane -> attention
    virtual void attention_gate() = 0;                        // attention *= sigmoid(gate)
    virtual void glu(Activation activation) = 0;              // ffn_gate = act(ffn_gate) * ffn_up
    // residual += branch, or RMS(branch, post_eps) * post_norm where given; then, where next_norm is
    // given, normed = RMS(residual, next_eps) * next_norm.
    virtual void residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) = 0;
    virtual void tap() = 0; // copies the residual of every row; the i-th call fills taps(i)
    // Logits of the rows with these indices, in this order. They need not be all rows; may be empty.
    virtual void head(const HeadSpec &spec, std::span<const int32_t> rows) = 0;
    // Stands for head() where only the first maximum of each row's logits is wanted, of a head from which the device can
    // choose with less work. Of a pass of up to kRowsBeside rows.
    virtual bool can_choose(const HeadSpec &) const { return false; }
    virtual void choose(const HeadSpec &, std::span<const int32_t>) { throw Error(ErrorCode::internal, "this device computes all logits"); }
    // Runs what was recorded. Throws Error{device} or Error{timeout}; then nothing of the pass counts.
    virtual void commit_and_wait(Deadline deadline) = 0;
    // The same, with pauses where the device has them; they do not count towards the deadline. After a pass that was
    // given up, what pause() threw is thrown here.
    virtual void commit_pausing(Deadline deadline, const Pauses &) { commit_and_wait(deadline); }

    // ---- greedy chains --------------------------------------------------------------------------
    // Passes of one row each that run one after the other without the host between them: the token of each row but
    // the first is the one that the pass before chose, the first maximum of its logits. begin_link() stands for
    // begin(); head() gets row 0; commit_link() starts the pass and returns at once. Up to kLinksInFlight passes may
    // be committed and not yet waited for, and a chain ends when all were. `rows`, the whole chain, must stay alive.
    virtual bool has_chains() const { return false; }
    virtual void begin_link(std::span<const Row>, size_t) { throw Error(ErrorCode::internal, "this device has no chains"); }
    virtual void commit_link() { throw Error(ErrorCode::internal, "this device has no chains"); }
    // Waits for the oldest pass and returns what it chose; -1: its logits have a NaN, or all are -inf. Throws as
    // commit_and_wait() does.
    virtual int32_t wait_link(Deadline) { throw Error(ErrorCode::internal, "this device has no chains"); }

    // After a commit, until the next begin(). Of a chain: i is the link, and the last kLinksInFlight are there.
    virtual std::span<const float> logits(size_t i) const = 0; // [vocab] of the i-th row given to head()
    virtual std::span<const float> taps(size_t i) const = 0;   // [rows, width of residual]
    // Of the i-th row given to choose(); -1: its logits have a NaN, or all are -inf.
    virtual int32_t chosen(size_t) const { throw Error(ErrorCode::internal, "this device computes all logits"); }
};

} // namespace muser
