// Wraps any device and makes chosen commits fail or hang, to test what stands on a device: the latch, bounded
// waits, and that a failed forward installs nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "device/device.h"

namespace muser {

struct FaultPlan {
    enum class Kind { fail, hang };
    uint64_t commit = 0;         // which commit from now on, 1 is the next; 0: none
    Kind kind = Kind::fail;
    bool all_later = false;      // and every one after it
    bool after_running = false;  // the pass runs (keys and values are written), then the commit reports the fault
    std::string message = "injected fault";
    // A hang ends at the deadline, with Error{timeout}; without a deadline after this, with Error{device}.
    std::chrono::milliseconds longest_hang{5000};
};

class FaultDevice final : public Device {
  public:
    explicit FaultDevice(std::unique_ptr<Device> inner, FaultPlan plan = {});

    void arm(FaultPlan plan); // replaces the plan; may be called while other threads use the device
    uint64_t commits() const { return commits_.load(); } // attempted so far
    Device &inner() { return *inner_; }

    DeviceInfo info() const override;
    uint64_t weight_bytes(const TensorView &tensor, WeightUse use) const override;
    uint64_t kv_bytes(std::span<const PlaneSpec> planes) const override;
    uint64_t workspace_bytes(const WorkspaceSpec &spec) const override;
    std::unique_ptr<Weight> load_weight(const TensorView &tensor, WeightUse use) override;
    std::vector<std::unique_ptr<Weight>> load_weights(std::span<const WeightSource> sources) override;
    bool keeps_file(gguf::BlockType type, WeightUse use) const override;
    std::unique_ptr<KvStore> make_kv(std::span<const PlaneSpec> planes) override;
    void set_workspace(const WorkspaceSpec &spec) override;

    void begin(std::span<const Row> rows, PassKind kind) override;
    bool can_narrow() const override;
    void narrow(int first_row) override;
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
    bool can_choose(const HeadSpec &spec) const override;
    void choose(const HeadSpec &spec, std::span<const int32_t> rows) override;
    void commit_and_wait(Deadline deadline) override;
    void commit_pausing(Deadline deadline, const Pauses &pauses) override;

    std::span<const float> logits(size_t i) const override;
    std::span<const float> taps(size_t i) const override;
    int32_t chosen(size_t i) const override;

  private:
    template <class Commit> void commit(Deadline deadline, const Commit &inner);
    bool next_is_faulty(FaultPlan &plan);
    [[noreturn]] static void fault(const FaultPlan &plan, Deadline deadline);

    std::unique_ptr<Device> inner_;
    std::mutex mutex_; // guards plan_ and since_armed_
    FaultPlan plan_;
    uint64_t since_armed_ = 0;
    std::atomic<uint64_t> commits_{0};
};

} // namespace muser
