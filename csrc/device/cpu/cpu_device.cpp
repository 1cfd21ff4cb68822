// Records the ops of a pass as steps (pass.h) over the workspace's buffers. Row-wise ops merge into the step
// before them; a matrix product's input is quantized by the step that produced it.
#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "device/cpu/attention_pass.h"
#include "device/cpu/kv_planes.h"
#include "device/cpu/matmul.h"
#include "device/cpu/ops.h"
#include "device/cpu/pass.h"
#include "device/cpu/weight.h"
#include "device/cpu/workspace.h"

namespace muser::cpu {

namespace {

void require(bool holds, const char *what) { // of the caller's code, never of input
    if (!holds)
        throw Error(ErrorCode::internal, std::string("CPU device: ") + what);
}

class CpuDevice final : public Device {
  public:
    CpuDevice(int threads, Level level)
        : pool_(threads), pass_(pool_), ops_(op_kernels(level)), products_(matmul_kernels(level)), attention_(ops_) {}

    DeviceInfo info() const override {
        return {"cpu", cpu_features() + ", " + std::to_string(pool_.size()) + (pool_.size() == 1 ? " thread" : " threads")};
    }

    uint64_t weight_bytes(const TensorView &tensor, WeightUse use) const override {
        return CpuWeight::bytes(tensor, use, products_.lanes);
    }
    uint64_t kv_bytes(std::span<const PlaneSpec> planes) const override { return KvPlanes::bytes(planes); }
    uint64_t workspace_bytes(const WorkspaceSpec &spec) const override { return Workspace::bytes(spec, pool_.size()); }

    std::unique_ptr<Weight> load_weight(const TensorView &tensor, WeightUse use) override {
        return std::make_unique<CpuWeight>(tensor, use, products_.lanes, pool_);
    }
    bool keeps_file(gguf::BlockType, WeightUse use) const override { return CpuWeight::keeps_file(use); }
    std::unique_ptr<KvStore> make_kv(std::span<const PlaneSpec> planes) override {
        return std::make_unique<KvPlanes>(planes);
    }
    void set_workspace(const WorkspaceSpec &spec) override {
        workspace_ = Workspace(); // the old one goes before the new one comes
        workspace_ = Workspace(spec, pool_.size());
    }

    void begin(std::span<const Row> rows) override;
    void embed(const Weight &table, EmbedOp op, float x) override;
    void norm(const Weight &weight, float eps) override;
    void matmul(Act in, std::span<const Projection> projections) override;
    void qk_norm_rope(const QkSpec &spec) override;
    void kv_store(const AttentionSpec &spec) override;
    void attention(const AttentionSpec &spec) override;
    void attention_gate() override;
    void glu(Activation activation) override;
    void residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) override;
    void tap() override;
    void head(const HeadSpec &spec, std::span<const int32_t> rows) override;
    void commit_and_wait(Deadline deadline) override;

    std::span<const float> logits(size_t i) const override {
        require(i < n_logits_, "logits() of a row that head() was not given");
        return {workspace_.logits(static_cast<int>(i)), workspace_.spec().vocab};
    }
    std::span<const float> taps(size_t i) const override {
        require(i < n_taps_, "taps() of a tap that was not made");
        return {workspace_.taps(static_cast<int>(i)), rows_.size() * workspace_.width(Act::residual)};
    }

  private:
    struct Product { // one weight of a matmul, or the head
        const PackedMatrix *matrix;
        const float *bias;
        float *out;
        size_t out_stride;
    };

    int n_rows() const { return static_cast<int>(rows_.size()); }
    float *act(Act a, int row) const { return workspace_.row(a, row); }
    template <class F> void each_row(const F &f) { // f(row)
        pass_.add_rows(n_rows(), [f](int first, int last, int) {
            for (int row = first; row < last; ++row)
                f(row);
        });
    }
    void quantize_once(Act in);
    void wrote(Act act) {
        if (quantized_ == act)
            quantized_ = Act::count;
    }
    int rope_table(const RopeSpec &rope);
    int tile_grain(uint64_t tiles) const { return static_cast<int>(tiles / (static_cast<uint64_t>(pool_.size()) * 8)); }

    ThreadPool pool_;
    Pass pass_;
    const OpKernels &ops_;
    const MatmulKernels &products_;
    Workspace workspace_;
    AttentionPlanner attention_;

    // The pass being recorded, or the one just run.
    std::span<const Row> rows_;
    std::vector<Product> list_;
    std::vector<const RopeSpec *> ropes_;
    std::vector<int32_t> head_rows_;
    Act quantized_ = Act::count; // whose rows `quants` holds at this point of the recording
    size_t n_logits_ = 0, n_taps_ = 0;
};

void CpuDevice::begin(std::span<const Row> rows) {
    require(rows.size() <= workspace_.spec().max_rows, "more rows than the workspace has room for");
    pass_.clear();
    list_.clear();
    ropes_.clear();
    head_rows_.clear();
    quantized_ = Act::count;
    n_logits_ = n_taps_ = 0;
    rows_ = rows;
    attention_.begin(rows, workspace_);
}

void CpuDevice::embed(const Weight &table, EmbedOp op, float x) {
    const CpuWeight &weight = cpu_weight(table);
    require(weight.cols == workspace_.width(Act::residual), "embedding width");
    each_row([this, &weight, op, x](int row) {
        float *out = act(Act::residual, row);
        weight.row(static_cast<uint64_t>(rows_[row].token), out);
        if (op == EmbedOp::scale)
            ops_.scale(out, x, weight.cols);
        else if (op == EmbedOp::rms)
            ops_.rms_norm(out, nullptr, x, out, weight.cols);
    });
}

void CpuDevice::norm(const Weight &weight, float eps) {
    const float *w = cpu_weight(weight).vector();
    each_row([this, w, eps](int row) {
        ops_.rms_norm(act(Act::residual, row), w, eps, act(Act::normed, row), workspace_.width(Act::residual));
    });
    wrote(Act::normed);
}

void CpuDevice::quantize_once(Act in) {
    if (quantized_ == in)
        return;
    const uint64_t cols = workspace_.width(in);
    const size_t record = quantized_row_bytes(cols);
    each_row([this, in, cols, record](int row) {
        products_.quantize_row(act(in, row), cols, workspace_.quants() + row * record);
    });
    quantized_ = in;
}

void CpuDevice::matmul(Act in, std::span<const Projection> projections) {
    const size_t first_product = list_.size();
    uint64_t tiles = 0;
    bool quantized = false;
    for (const Projection &p : projections) {
        const PackedMatrix &matrix = cpu_weight(*p.weight).matrix();
        require(matrix.cols == workspace_.width(in), "matmul input width");
        require(matrix.rows == workspace_.width(p.out), "matmul output width");
        list_.push_back({&matrix, p.bias ? cpu_weight(*p.bias).vector() : nullptr, act(p.out, 0), workspace_.stride(p.out)});
        tiles += matrix.tiles();
        quantized |= needs_quantized_rows(matrix.type);
    }
    if (quantized)
        quantize_once(in);
    for (const Projection &p : projections)
        wrote(p.out);
    const ActivationRows input{act(in, 0), workspace_.stride(in), workspace_.quants()};
    const size_t n = projections.size();
    pass_.add(static_cast<int>(tiles), tile_grain(tiles), [this, first_product, n, input](int first, int last, int) {
        // Tiles of all projections are numbered through.
        for (size_t i = first_product; i < first_product + n && last > 0; ++i) {
            const Product &p = list_[i];
            const int tiles_here = static_cast<int>(p.matrix->tiles());
            if (first < tiles_here)
                products_.matmul(*p.matrix, static_cast<uint64_t>(std::max(first, 0)),
                                 static_cast<uint64_t>(std::min(last, tiles_here)), input, n_rows(), p.out, p.out_stride,
                                 p.bias);
            first -= tiles_here;
            last -= tiles_here;
        }
    });
}

// The index of the table that holds cos and sin of every row's angles; computed beside the first step, once a
// pass. The angle is rounded to float32 as the reference rounds it; its cosine is that of the rounded angle.
int CpuDevice::rope_table(const RopeSpec &rope) {
    const auto known = std::find(ropes_.begin(), ropes_.end(), &rope);
    const int index = static_cast<int>(known - ropes_.begin());
    if (known != ropes_.end())
        return index;
    require(index < kMaxRopes, "more rotary configurations than the workspace has room for");
    require(rope.inv_freq.size() <= workspace_.rope_width(), "more rotary pairs than half a head");
    ropes_.push_back(&rope);
    pass_.add_prologue(n_rows(), [this, index, &rope](int first, int last, int) {
        for (int row = first; row < last; ++row) {
            float *cosine = workspace_.rope_cos(index, row), *sine = workspace_.rope_sin(index, row);
            for (size_t k = 0; k < rope.inv_freq.size(); ++k) {
                const float angle = static_cast<float>(rows_[row].position) * rope.inv_freq[k];
                cosine[k] = static_cast<float>(std::cos(static_cast<double>(angle)));
                sine[k] = static_cast<float>(std::sin(static_cast<double>(angle)));
            }
        }
    });
    return index;
}

void CpuDevice::qk_norm_rope(const QkSpec &spec) {
    require(spec.n_heads * spec.head_dim == workspace_.width(Act::query), "query width");
    require(spec.n_kv_heads * spec.head_dim == workspace_.width(Act::key), "key width");
    const int table = spec.rope ? rope_table(*spec.rope) : 0;
    const auto side = [&](Act which, const Weight *norm, uint32_t heads) {
        if (!norm && !spec.rope)
            return;
        const float *weight = norm ? cpu_weight(*norm).vector() : nullptr;
        const RopeSpec *rope = spec.rope;
        const float eps = spec.norm_eps;
        const uint32_t head_dim = spec.head_dim;
        each_row([this, which, weight, eps, heads, head_dim, rope, table](int row) {
            for (uint32_t head = 0; head < heads; ++head) {
                float *x = act(which, row) + size_t{head} * head_dim;
                if (weight)
                    ops_.rms_norm(x, weight, eps, x, head_dim);
                if (rope)
                    ops_.rope(x, workspace_.rope_cos(table, row), workspace_.rope_sin(table, row), rope->inv_freq.size(),
                              rope->pairing == RopePairing::halves);
            }
        });
    };
    side(Act::query, spec.q_norm, spec.n_heads);
    side(Act::key, spec.k_norm, spec.n_kv_heads);
}

void CpuDevice::kv_store(const AttentionSpec &spec) {
    const uint32_t plane = spec.plane;
    each_row([this, plane](int row) {
        const PlaneView &view = static_cast<const KvPlanes *>(rows_[row].kv)->plane(plane);
        ops_.store_kv(view, static_cast<uint32_t>(rows_[row].position), act(Act::key, row), act(Act::value, row));
    });
}

void CpuDevice::attention(const AttentionSpec &spec) {
    require(spec.n_heads * spec.head_dim == workspace_.width(Act::query), "query width");
    attention_.record(spec, pass_);
    wrote(Act::attention);
}

void CpuDevice::attention_gate() {
    each_row([this](int row) {
        ops_.gate(act(Act::attention, row), act(Act::gate, row), workspace_.width(Act::attention));
    });
    wrote(Act::attention);
}

void CpuDevice::glu(Activation activation) {
    const auto kernel = activation == Activation::silu ? ops_.silu_glu : ops_.gelu_tanh_glu;
    each_row([this, kernel](int row) {
        kernel(act(Act::ffn_gate, row), act(Act::ffn_up, row), workspace_.width(Act::ffn_gate));
    });
    wrote(Act::ffn_gate);
}

void CpuDevice::residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) {
    const float *post = post_norm ? cpu_weight(*post_norm).vector() : nullptr;
    const float *next = next_norm ? cpu_weight(*next_norm).vector() : nullptr;
    each_row([this, post, post_eps, next, next_eps](int row) {
        const size_t width = workspace_.width(Act::residual);
        float *x = act(Act::residual, row);
        if (post)
            ops_.add_rms_norm(x, act(Act::branch, row), post, post_eps, width);
        else
            ops_.add(x, act(Act::branch, row), width);
        if (next)
            ops_.rms_norm(x, next, next_eps, act(Act::normed, row), width);
    });
    wrote(Act::normed);
}

void CpuDevice::tap() {
    require(n_taps_ < workspace_.spec().max_taps, "more taps than the workspace has room for");
    float *to = workspace_.taps(static_cast<int>(n_taps_++));
    each_row([this, to](int row) {
        const size_t width = workspace_.width(Act::residual);
        std::memcpy(to + row * width, act(Act::residual, row), width * sizeof(float));
    });
}

void CpuDevice::head(const HeadSpec &spec, std::span<const int32_t> rows) {
    require(rows.size() <= workspace_.spec().max_logit_rows, "more logits than the workspace has room for");
    if (rows.empty())
        return;
    const PackedMatrix &matrix = cpu_weight(*spec.weight).matrix();
    require(matrix.cols == workspace_.width(Act::residual) && matrix.rows == workspace_.spec().vocab, "head shape");
    head_rows_.assign(rows.begin(), rows.end());
    n_logits_ = rows.size();
    quantized_ = Act::count; // the head's own input takes the buffer

    const int n = static_cast<int>(rows.size());
    const size_t record = quantized_row_bytes(matrix.cols);
    const bool quantized = needs_quantized_rows(matrix.type);
    const float *norm = cpu_weight(*spec.norm).vector();
    const float eps = spec.norm_eps;
    pass_.add(n, 1, [this, norm, eps, quantized, record](int first, int last, int) {
        const size_t width = workspace_.width(Act::residual);
        for (int i = first; i < last; ++i) {
            ops_.rms_norm(act(Act::residual, head_rows_[i]), norm, eps, workspace_.head_input(i), width);
            if (quantized)
                products_.quantize_row(workspace_.head_input(i), width, workspace_.quants() + i * record);
        }
    });

    const float *bias = spec.bias ? cpu_weight(*spec.bias).vector() : nullptr;
    const float scale = spec.logit_scale, cap = spec.softcap;
    pass_.add(static_cast<int>(matrix.tiles()), tile_grain(matrix.tiles()),
              [this, &matrix, bias, scale, cap, n](int first, int last, int) {
                  const ActivationRows input{workspace_.head_input(0), workspace_.stride(Act::residual), workspace_.quants()};
                  products_.matmul(matrix, static_cast<uint64_t>(first), static_cast<uint64_t>(last), input, n,
                                   workspace_.logits(0), workspace_.logits_stride(), bias);
                  const size_t from = size_t(first) * matrix.lanes, to = std::min<size_t>(size_t(last) * matrix.lanes, matrix.rows);
                  for (int i = 0; i < n; ++i) {
                      if (scale != 1.0f)
                          ops_.scale(workspace_.logits(i) + from, scale, to - from);
                      if (cap != 0.0f)
                          ops_.softcap(workspace_.logits(i) + from, cap, to - from);
                  }
              });
}

void CpuDevice::commit_and_wait(Deadline deadline) { pass_.run(deadline); }

} // namespace

} // namespace muser::cpu

namespace muser {

std::unique_ptr<Device> make_cpu_device(int threads, cpu::Level level) {
    if (threads < 0)
        throw parameter_error("threads", "must be 0 (all cores) or more", threads);
    return std::make_unique<cpu::CpuDevice>(threads == 0 ? available_cores() : threads, level);
}

std::unique_ptr<Device> make_cpu_device(int threads) { return make_cpu_device(threads, cpu::choose_level()); }

} // namespace muser
