// Records the ops of a pass as Metal dispatches. Row-wise ops are recorded here; products in product_recorder.mm,
// attention in attention_recorder.mm.
#import "device/metal/metal_device.h"

#import "device/metal/attention_recorder.h"
#import "device/metal/product_recorder.h"
#include "device/metal/require.h"

namespace muser::metal {

namespace {

constexpr uint32_t kNormThreads = 1024; // a row of a norm is one threadgroup's: short where that is wide
constexpr uint32_t kEmbedThreads = 256;
constexpr uint32_t kCopyThreads = 256;
constexpr uint32_t kArgmaxThreads = 1024;
// So that a window drawn meanwhile is late by less than a blink. Chosen without a Mac: not measured.
constexpr std::chrono::milliseconds kLongestPrefill{200};
constexpr std::chrono::seconds kSettle{30}; // for a pass that its caller gave up, before its memory goes

// Metal's objects are released where a C++ thread has no pool of its own.
template <class F> auto pooled(const F &f) {
    @autoreleasepool {
        return f();
    }
}

class MetalDevice final : public Device {
  public:
    explicit MetalDevice(id<MTLDevice> device)
        : gpu_(device), kernels_(device), weights_(gpu_), encoder_(gpu_), state_(kernels_, encoder_), products_(state_),
          attention_(state_) {}
    ~MetalDevice() override { encoder_.settle(kSettle); }

    DeviceInfo info() const override {
        return pooled([&] { return DeviceInfo{"metal", gpu_.device().name.UTF8String, false, 0, kLongestPrefill}; });
    }

    // A matrix stays where the file has it, but the GPU needs its pages in memory all the same.
    uint64_t weight_bytes(const TensorView &tensor, WeightUse use) const override {
        return use == WeightUse::vector ? tensor.rows * tensor.cols * sizeof(float) : tensor.data.size();
    }
    uint64_t kv_bytes(std::span<const PlaneSpec> planes) const override { return KvBuffer::bytes(planes); }
    uint64_t workspace_bytes(const WorkspaceSpec &spec) const override { return Workspace::bytes(spec); }

    std::unique_ptr<Weight> load_weight(const TensorView &tensor, WeightUse use) override {
        return pooled([&]() -> std::unique_ptr<Weight> {
            if (use != WeightUse::vector)
                kernels_.prepare(tensor.type);
            return weights_.load(tensor, use);
        });
    }
    bool keeps_file(gguf::BlockType, WeightUse use) const override { return use != WeightUse::vector; }
    std::unique_ptr<KvStore> make_kv(std::span<const PlaneSpec> planes) override {
        return pooled([&] { return std::make_unique<KvBuffer>(gpu_, planes); });
    }
    void set_workspace(const WorkspaceSpec &spec) override {
        pooled([&] {
            state_.workspace = Workspace(); // the old one goes before the new one comes
            state_.workspace = Workspace(gpu_, spec);
        });
    }

    void begin(std::span<const Row> rows, PassKind kind) override;
    void embed(const Weight &table, EmbedOp op, float x) override;
    void norm(const Weight &weight, float eps) override;
    void matmul(Act in, std::span<const Projection> projections) override {
        attention_.flush();
        products_.record(in, projections);
    }
    void qk_norm_rope(const QkSpec &spec) override {
        products_.flush();
        attention_.prepare(spec);
    }
    void kv_store(const AttentionSpec &spec) override { attention_.store(spec); }
    void attention(const AttentionSpec &spec) override { attention_.attend(spec); }
    void attention_gate() override { attention_.gate(); }
    void glu(Activation activation) override { products_.glu(activation); }
    void residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) override;
    void tap() override;
    void head(const HeadSpec &spec, std::span<const int32_t> rows) override;
    bool can_choose(const HeadSpec &) const override { return state_.workspace.has_room_for_choices(); }
    void choose(const HeadSpec &spec, std::span<const int32_t> rows) override;
    void commit_and_wait(Deadline deadline) override;

    bool has_chains() const override { return state_.workspace.has_room_for_chains(); }
    void begin_link(std::span<const Row> chain, size_t link) override;
    void commit_link() override;
    int32_t wait_link(Deadline deadline) override;

    std::span<const float> logits(size_t i) const override {
        const Workspace &w = state_.workspace;
        if (n_links_ > 0) {
            require(i < n_links_ && i + kLinksInFlight >= n_links_, "logits() of a link that is long gone");
            return {host<const float>(w.logits(i)), w.spec().vocab};
        }
        require(i < n_logits_, "logits() of a row that head() was not given");
        return {host<const float>(w.logits()) + i * w.logits_stride(), w.spec().vocab};
    }
    int32_t chosen(size_t i) const override {
        require(i < n_choices_, "chosen() of a row that choose() was not given");
        return *host<const int32_t>(state_.workspace.chosen(i));
    }
    std::span<const float> taps(size_t i) const override {
        require(i < n_taps_, "taps() of a tap that was not made");
        const Workspace &w = state_.workspace;
        return {host<const float>(w.taps(static_cast<uint32_t>(i))), state_.rows.size() * w.width(Act::residual)};
    }

  private:
    struct Norm {
        bool has_branch = false;
        const Weight *post = nullptr, *next = nullptr;
        float post_eps = 0, next_eps = 0;
        uint32_t n_picked = 0; // 0: every row
    };
    void encode_norm(const Norm &norm);
    void encode_argmax(uint32_t n_rows, const Place &next);
    void flush() {
        products_.flush();
        attention_.flush();
    }

    Gpu gpu_;
    Kernels kernels_;
    WeightLoader weights_;
    PassEncoder encoder_;
    PassState state_;
    ProductRecorder products_;
    AttentionRecorder attention_;
    uint32_t n_logits_ = 0, n_taps_ = 0, n_choices_ = 0;
    size_t n_links_ = 0, n_waited_ = 0; // of a chain: committed, and known to have ended
};

void MetalDevice::begin(std::span<const Row> rows, PassKind kind) {
    pooled([&] { weights_.seal(); });
    encoder_.begin();
    state_.begin(rows, kind);
    products_.begin();
    attention_.begin();
    n_logits_ = n_taps_ = n_choices_ = 0;
    n_links_ = n_waited_ = 0;
}

void MetalDevice::begin_link(std::span<const Row> chain, size_t link) {
    if (link == 0)
        n_links_ = n_waited_ = 0;
    require(link == n_links_ && link < n_waited_ + kLinksInFlight, "links of a chain out of order");
    pooled([&] { weights_.seal(); });
    encoder_.begin(link > 0);
    state_.begin_link(chain, link);
    products_.begin();
    if (link == 0)
        attention_.begin();
    else
        attention_.begin_link();
    n_logits_ = n_taps_ = n_choices_ = 0;
}

void MetalDevice::commit_link() {
    flush();
    require(n_logits_ == 1, "a link without logits");
    encode_argmax(1, state_.workspace.next_row());
    encoder_.commit();
    ++n_links_;
}

// next: what takes the tokens chosen, a row each.
void MetalDevice::encode_argmax(uint32_t n_rows, const Place &next) {
    const Workspace &w = state_.workspace;
    const Kernel &kernel = kernels_.argmax();
    encoder_.use(kernel);
    encoder_.args(ArgmaxArgs{w.spec().vocab, w.logits_stride()});
    encoder_.bind(1, w.logits());
    encoder_.bind(2, next);
    encoder_.bind(3, w.chosen());
    encoder_.dispatch(MTLSizeMake(n_rows, 1, 1), kernel.threads(kArgmaxThreads), bit(kLogits), bit(kNextRows));
}

int32_t MetalDevice::wait_link(Deadline deadline) {
    encoder_.wait_oldest(deadline);
    return *host<const int32_t>(state_.workspace.chosen(n_waited_++));
}

void MetalDevice::embed(const Weight &table, EmbedOp op, float x) {
    const MetalWeight &weight = matrix_of(table);
    const Workspace &w = state_.workspace;
    require(weight.cols == w.width(Act::residual), "embedding width");
    const Kernel &kernel = kernels_.embed(weight.type);
    const EmbedArgs args{static_cast<uint32_t>(weight.cols), weight.row_bytes, w.stride(Act::residual),
                         op == EmbedOp::scale ? 1u : op == EmbedOp::rms ? 2u : 0u, x};
    encoder_.use(kernel);
    encoder_.args(args);
    encoder_.bind(1, w.rows());
    encoder_.bind(2, *weight.place);
    encoder_.bind(3, w.act(Act::residual));
    encoder_.dispatch(MTLSizeMake(state_.n_rows(), 1, 1), kernel.threads(kEmbedThreads), bit(kNextRows), bit(Act::residual));
}

void MetalDevice::encode_norm(const Norm &norm) {
    const Workspace &w = state_.workspace;
    const Kernel &kernel = kernels_.residual_norm();
    NormArgs args{};
    args.cols = w.width(Act::residual);
    args.stride = w.stride(Act::residual);
    args.has_branch = norm.has_branch;
    args.has_post = norm.post != nullptr;
    args.has_next = norm.next != nullptr;
    args.in_lane_order = state_.few;
    args.picks_rows = norm.n_picked > 0;
    args.post_eps = norm.post_eps;
    args.next_eps = norm.next_eps;
    const Place residual = w.act(Act::residual);
    const bool to_head = norm.n_picked > 0;
    encoder_.use(kernel);
    encoder_.args(args);
    encoder_.bind(1, residual);
    encoder_.bind(2, norm.has_branch ? w.act(Act::branch) : residual);
    encoder_.bind(3, norm.post ? vector_of(*norm.post) : residual);
    encoder_.bind(4, norm.next ? vector_of(*norm.next) : residual);
    encoder_.bind(5, to_head ? w.head_input() : w.act(Act::normed));
    encoder_.bind(6, w.picked());
    const Resources to = !norm.next ? 0 : to_head ? bit(kHeadInput) : bit(Act::normed);
    const Resources residual_bit = norm.has_branch ? bit(Act::residual) : 0;
    encoder_.dispatch(MTLSizeMake(to_head ? norm.n_picked : state_.n_rows(), 1, 1), kernel.threads(kNormThreads),
                      bit(Act::residual) | (norm.has_branch ? bit(Act::branch) : 0), to | residual_bit);
}

void MetalDevice::norm(const Weight &weight, float eps) {
    flush();
    Norm norm;
    norm.next = &weight;
    norm.next_eps = eps;
    encode_norm(norm);
}

void MetalDevice::residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) {
    flush();
    Norm norm;
    norm.has_branch = true;
    norm.post = post_norm;
    norm.post_eps = post_eps;
    norm.next = next_norm;
    norm.next_eps = next_eps;
    encode_norm(norm);
}

void MetalDevice::tap() {
    flush();
    const Workspace &w = state_.workspace;
    require(n_taps_ < w.spec().max_taps, "more taps than the workspace has room for");
    const Kernel &kernel = kernels_.copy_rows();
    const uint32_t threads = kernel.threads(kCopyThreads);
    const CopyArgs args{w.width(Act::residual), w.stride(Act::residual)};
    encoder_.use(kernel);
    encoder_.args(args);
    encoder_.bind(1, w.act(Act::residual));
    encoder_.bind(2, w.taps(n_taps_++));
    encoder_.dispatch(MTLSizeMake((args.cols + threads - 1) / threads, state_.n_rows(), 1), threads, bit(Act::residual), 0);
}

void MetalDevice::head(const HeadSpec &spec, std::span<const int32_t> rows) {
    flush();
    require(rows.size() <= state_.workspace.spec().max_logit_rows, "more logits than the workspace has room for");
    if (rows.empty())
        return;
    if (state_.workspace.link() == 0) // later links pick the same
        std::copy(rows.begin(), rows.end(), host<int32_t>(state_.workspace.picked()));
    n_logits_ = static_cast<uint32_t>(rows.size());
    Norm norm;
    norm.next = spec.norm;
    norm.next_eps = spec.norm_eps;
    norm.n_picked = n_logits_;
    encode_norm(norm);
    products_.head(spec, n_logits_);
}

// The host reads a number a row instead of all logits.
void MetalDevice::choose(const HeadSpec &spec, std::span<const int32_t> rows) {
    require(rows.size() <= kRowsBeside, "choose() of more rows than it has room for");
    head(spec, rows);
    flush();
    if (rows.empty())
        return;
    n_choices_ = n_logits_;
    encode_argmax(n_choices_, state_.workspace.spare_rows(state_.n_rows()));
}

void MetalDevice::commit_and_wait(Deadline deadline) {
    flush();
    encoder_.commit_and_wait(deadline);
}

std::optional<std::string> missing(id<MTLDevice> device) {
    if (!device)
        return "Metal found no GPU";
    if (![device supportsFamily:MTLGPUFamilyApple7])
        return std::string("Metal here is ") + device.name.UTF8String + ", and muser needs Apple silicon";
    return std::nullopt;
}

} // namespace

} // namespace muser::metal

namespace muser {

std::optional<std::string> metal_missing() {
    @autoreleasepool {
        return metal::missing(MTLCreateSystemDefaultDevice());
    }
}

std::unique_ptr<Device> make_metal_device() {
    @autoreleasepool {
        id<MTLDevice> device = MTLCreateSystemDefaultDevice();
        if (const auto reason = metal::missing(device))
            throw Error(ErrorCode::unsupported_device, "there is no device \"metal\" here: " + *reason);
        return std::make_unique<metal::MetalDevice>(device);
    }
}

} // namespace muser
