// Everything goes to the wrapped device; only a commit may do something else.
#include "device/fault/fault_device.h"

#include <algorithm>
#include <thread>

#include "core/error.h"

namespace muser {

FaultDevice::FaultDevice(std::unique_ptr<Device> inner, FaultPlan plan) : inner_(std::move(inner)), plan_(std::move(plan)) {}

void FaultDevice::arm(FaultPlan plan) {
    std::lock_guard lock(mutex_);
    plan_ = std::move(plan);
    since_armed_ = 0;
}

bool FaultDevice::next_is_faulty(FaultPlan &plan) {
    std::lock_guard lock(mutex_);
    plan = plan_;
    ++since_armed_;
    return plan.commit != 0 && (since_armed_ == plan.commit || (plan.all_later && since_armed_ > plan.commit));
}

void FaultDevice::fault(const FaultPlan &plan, Deadline deadline) {
    if (plan.kind == FaultPlan::Kind::hang) {
        const auto end = Clock::now() + plan.longest_hang;
        std::this_thread::sleep_until(deadline ? std::min(*deadline, end) : end);
        if (deadline && *deadline <= end)
            throw Error(ErrorCode::timeout, "the deadline passed during a forward pass");
    }
    throw Error(ErrorCode::device, plan.message);
}

template <class Commit> void FaultDevice::commit(Deadline deadline, const Commit &inner) {
    ++commits_;
    FaultPlan plan;
    const bool faulty = next_is_faulty(plan);
    if (!faulty || plan.after_running)
        inner();
    if (faulty)
        fault(plan, deadline);
}

void FaultDevice::commit_and_wait(Deadline deadline) {
    commit(deadline, [&] { inner_->commit_and_wait(deadline); });
}

void FaultDevice::commit_pausing(Deadline deadline, const Pauses &pauses) {
    commit(deadline, [&] { inner_->commit_pausing(deadline, pauses); });
}

DeviceInfo FaultDevice::info() const { return inner_->info(); }
uint64_t FaultDevice::weight_bytes(const TensorView &tensor, WeightUse use) const { return inner_->weight_bytes(tensor, use); }
uint64_t FaultDevice::kv_bytes(std::span<const PlaneSpec> planes) const { return inner_->kv_bytes(planes); }
uint64_t FaultDevice::workspace_bytes(const WorkspaceSpec &spec) const { return inner_->workspace_bytes(spec); }
std::unique_ptr<Weight> FaultDevice::load_weight(const TensorView &tensor, WeightUse use) {
    return inner_->load_weight(tensor, use);
}
std::vector<std::unique_ptr<Weight>> FaultDevice::load_weights(std::span<const WeightSource> sources) {
    return inner_->load_weights(sources);
}
bool FaultDevice::keeps_file(gguf::BlockType type, WeightUse use) const { return inner_->keeps_file(type, use); }
std::unique_ptr<KvStore> FaultDevice::make_kv(std::span<const PlaneSpec> planes) { return inner_->make_kv(planes); }
void FaultDevice::set_workspace(const WorkspaceSpec &spec) { inner_->set_workspace(spec); }

void FaultDevice::begin(std::span<const Row> rows, PassKind kind) { inner_->begin(rows, kind); }
bool FaultDevice::can_narrow() const { return inner_->can_narrow(); }
void FaultDevice::narrow(int first_row) { inner_->narrow(first_row); }
void FaultDevice::embed(const Weight &table, EmbedOp op, float x) { inner_->embed(table, op, x); }
void FaultDevice::norm(const Weight &weight, float eps) { inner_->norm(weight, eps); }
void FaultDevice::matmul(Act in, std::span<const Projection> projections) { inner_->matmul(in, projections); }
void FaultDevice::qk_norm_rope(const QkSpec &spec) { inner_->qk_norm_rope(spec); }
void FaultDevice::kv_store(const AttentionSpec &spec) { inner_->kv_store(spec); }
void FaultDevice::attention(const AttentionSpec &spec) { inner_->attention(spec); }
void FaultDevice::attention_gate() { inner_->attention_gate(); }
void FaultDevice::glu(Activation activation) { inner_->glu(activation); }
void FaultDevice::residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) {
    inner_->residual_norm(post_norm, post_eps, next_norm, next_eps);
}
void FaultDevice::tap() { inner_->tap(); }
void FaultDevice::head(const HeadSpec &spec, std::span<const int32_t> rows) { inner_->head(spec, rows); }
bool FaultDevice::can_choose(const HeadSpec &spec) const { return inner_->can_choose(spec); }
void FaultDevice::choose(const HeadSpec &spec, std::span<const int32_t> rows) { inner_->choose(spec, rows); }

std::span<const float> FaultDevice::logits(size_t i) const { return inner_->logits(i); }
std::span<const float> FaultDevice::taps(size_t i) const { return inner_->taps(i); }
int32_t FaultDevice::chosen(size_t i) const { return inner_->chosen(i); }

} // namespace muser
