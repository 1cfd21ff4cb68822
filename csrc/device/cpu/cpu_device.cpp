// Weights, planes and passes of one processor. A pass is recorded and run by a Recorder; there are two of them, so that
// small passes can run while a prefill is paused.
#include "device/cpu/cpu_device.h"

#include <algorithm>

#include "core/memory.h"
#include "core/thread_pool.h"
#include "device/cpu/kv_planes.h"
#include "device/cpu/recorder.h"
#include "device/cpu/require.h"
#include "device/cpu/weight_loader.h"

namespace muser::cpu {

namespace {

WorkspaceSpec spec_beside(WorkspaceSpec spec) {
    spec.max_rows = std::min(spec.max_rows, kRowsBeside);
    spec.max_logit_rows = std::min(spec.max_logit_rows, kRowsBeside);
    return spec;
}

class CpuDevice final : public Device {
  public:
    CpuDevice(int threads, Level level)
        : pool_(threads), lanes_(matmul_kernels(level).lanes), main_(pool_, op_kernels(level), matmul_kernels(level)),
          beside_(pool_, op_kernels(level), matmul_kernels(level)) {}

    DeviceInfo info() const override {
        DeviceInfo info;
        info.name = "cpu";
        info.description = cpu_features() + ", " + std::to_string(pool_.size()) + (pool_.size() == 1 ? " thread" : " threads");
        info.pauses = true;
        info.host_threads = pool_.size();
        return info;
    }

    uint64_t weight_bytes(const TensorView &tensor, WeightUse use) const override {
        return cpu::weight_bytes(tensor, use, lanes_);
    }
    uint64_t kv_bytes(std::span<const PlaneSpec> planes) const override { return KvPlanes::bytes(planes); }
    uint64_t workspace_bytes(const WorkspaceSpec &spec) const override {
        return Workspace::bytes(spec, pool_.size()) + Workspace::bytes(spec_beside(spec), pool_.size());
    }

    std::unique_ptr<Weight> load_weight(const TensorView &tensor, WeightUse use) override {
        const WeightSource source{tensor, use};
        return std::move(cpu::load_weights({&source, 1}, lanes_, pool_).front());
    }
    std::vector<std::unique_ptr<Weight>> load_weights(std::span<const WeightSource> sources) override {
        return cpu::load_weights(sources, lanes_, pool_);
    }
    bool keeps_file(gguf::BlockType, WeightUse use) const override { return cpu::keeps_file(use); }
    std::unique_ptr<KvStore> make_kv(std::span<const PlaneSpec> planes) override {
        return std::make_unique<KvPlanes>(planes);
    }
    void set_workspace(const WorkspaceSpec &spec) override {
        main_.set_workspace(spec);
        beside_.set_workspace(spec_beside(spec));
    }

    void begin(std::span<const Row> rows, PassKind kind) override { // the same bits for every kind
        is_paused_ = is_paused_ && kind == PassKind::decode; // else the paused pass was given up
        now_ = is_paused_ ? &beside_ : &main_;
        now_->begin(rows);
    }
    bool can_narrow() const override { return now_->can_narrow(); }
    void narrow(int first_row) override { now_->narrow(first_row); }
    void embed(const Weight &table, EmbedOp op, float x) override { now_->embed(table, op, x); }
    void norm(const Weight &weight, float eps) override { now_->norm(weight, eps); }
    void matmul(Act in, std::span<const Projection> projections) override { now_->matmul(in, projections); }
    void qk_norm_rope(const QkSpec &spec) override { now_->qk_norm_rope(spec); }
    void kv_store(const AttentionSpec &spec) override { now_->kv_store(spec); }
    void attention(const AttentionSpec &spec) override { now_->attention(spec); }
    void attention_gate() override { now_->attention_gate(); }
    void glu(Activation activation) override { now_->glu(activation); }
    void residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) override {
        now_->residual_norm(post_norm, post_eps, next_norm, next_eps);
    }
    void tap() override { now_->tap(); }
    void head(const HeadSpec &spec, std::span<const int32_t> rows) override { now_->head(spec, rows); }
    bool can_choose(const HeadSpec &spec) const override { return HeadPlanner::can_choose(spec); }
    void choose(const HeadSpec &spec, std::span<const int32_t> rows) override { now_->choose(spec, rows); }

    void commit_and_wait(Deadline deadline) override { now_->run(deadline, {}); }
    void commit_pausing(Deadline deadline, const Pauses &pauses) override {
        const auto pause = [&] {
            is_paused_ = true;
            pauses.pause(); // if it throws, the device may be another thread's by now
            is_paused_ = false;
            now_ = &main_;
        };
        now_->run(deadline, {pauses.wanted, pause});
    }

    std::span<const float> logits(size_t i) const override { return now_->logits(i); }
    std::span<const float> taps(size_t i) const override { return now_->taps(i); }
    int32_t chosen(size_t i) const override { return now_->chosen(i); }

  private:
    ThreadPool pool_;
    const int lanes_;
    Recorder main_, beside_;
    Recorder *now_ = &main_; // of the pass begun last
    bool is_paused_ = false; // main_'s pass is
};

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
