// muser._muser.DeviceOps: the device interface (device/device.h) one op at a time, for `muser selftest`.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "bindings/bindings.h"
#include "bindings/kv_type.h"
#include "bindings/open_device.h"
#include "bindings/unlocked.h"
#include "core/error.h"
#include "device/device.h"
#include "gguf/block_type.h"

namespace muser::bindings {

namespace {

constexpr size_t kPage = 16384; // of Apple's chips: a device may borrow whole pages
constexpr std::array<std::string_view, static_cast<size_t>(Act::count)> kActs = {
    "residual", "normed", "query", "key", "value", "gate", "attention", "branch", "ffn_gate", "ffn_up"};

Act act_of(const std::string &name) {
    const auto found = std::find(kActs.begin(), kActs.end(), name);
    if (found == kActs.end())
        throw Error(ErrorCode::parameter, "no activation is named " + name, {{"parameter", "act"}, {"value", name}});
    return static_cast<Act>(found - kActs.begin());
}

gguf::BlockType type_of(const std::string &name) {
    if (const auto type = gguf::type_named(name))
        return *type;
    throw Error(ErrorCode::parameter, "no tensor type is named " + name, {{"parameter", "type"}, {"value", name}});
}

using Table = nb::ndarray<nb::numpy, float, nb::ndim<2>>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Plane = std::tuple<uint32_t, uint32_t, uint32_t, std::string, bool>;
using Product = std::tuple<int, int, std::string>;

struct Free {
    void operator()(void *p) const { std::free(p); }
};

class DeviceOps {
  public:
    DeviceOps(const std::string &device, std::optional<int> threads) : device_(open_device(device, threads)) {}

    std::string name() const { return device_->info().name; }
    std::string description() const { return device_->info().description; }

    int add_weight(const std::string &type, Bytes data, uint64_t rows, uint64_t cols, bool vector) {
        const size_t size = (data.size() + kPage - 1) / kPage * kPage;
        memory_.emplace_back(std::aligned_alloc(kPage, size));
        if (!memory_.back())
            throw std::bad_alloc();
        std::memset(memory_.back().get(), 0, size);
        std::memcpy(memory_.back().get(), data.data(), data.size());
        const gguf::BlockType block = type_of(type);
        const gguf::BlockTraits &traits = gguf::traits(block);
        if (cols % traits.elements != 0 || rows * (cols / traits.elements) * traits.bytes != data.size())
            throw parameter_error("data", "must have the bytes of its shape", static_cast<int64_t>(data.size()));
        const TensorView view{"weight", block, rows, cols, {static_cast<const std::byte *>(memory_.back().get()), data.size()}};
        weights_.push_back(device_->load_weight(view, vector ? WeightUse::vector : WeightUse::head_and_lookup));
        return static_cast<int>(weights_.size()) - 1;
    }

    void set_workspace(uint32_t max_rows, uint32_t taps, uint32_t vocab, const nb::dict &widths) {
        WorkspaceSpec spec{max_rows, max_rows, taps, vocab, {}};
        std::ranges::fill(spec.widths, 64u); // of what is not given: every model has them all
        for (const auto [name, width] : widths)
            spec.widths[static_cast<size_t>(act_of(nb::cast<std::string>(name)))] = nb::cast<uint32_t>(width);
        device_->set_workspace(spec);
        vocab_ = vocab;
        width_ = spec.widths[0];
    }

    void add_session(const std::vector<Plane> &planes) {
        std::vector<PlaneSpec> specs;
        for (const auto &[rows, heads, head_dim, type, ring] : planes)
            specs.push_back({rows, heads, head_dim, parse_kv(type), ring});
        sessions_.push_back(device_->make_kv(specs));
    }

    void begin(const std::vector<int> &sessions, const std::vector<int32_t> &tokens, const std::vector<int32_t> &positions, bool decode) {
        rows_.clear();
        for (size_t i = 0; i < tokens.size(); ++i)
            rows_.push_back({sessions.empty() ? nullptr : sessions_.at(static_cast<size_t>(sessions.at(i))).get(), tokens[i], positions.at(i)});
        n_logits_ = 0;
        ropes_.clear();
        device_->begin(rows_, decode ? PassKind::decode : PassKind::prefill);
    }
    void embed(int table, int op, float x) { device_->embed(*weight(table), static_cast<EmbedOp>(op), x); }
    void norm(int w, float eps) { device_->norm(*weight(w), eps); }
    void matmul(const std::string &in, const std::vector<Product> &products) {
        std::vector<Projection> projections;
        for (const auto &[w, bias, out] : products)
            projections.push_back({weight(w), weight(bias), act_of(out)});
        device_->matmul(act_of(in), projections);
    }
    void attention(int q_norm, int k_norm, float eps, std::vector<float> inv_freq, bool halves, uint32_t n_heads, uint32_t n_kv_heads,
                   uint32_t head_dim, float scale, uint32_t window, uint32_t plane) {
        const RopeSpec *rope = nullptr;
        if (!inv_freq.empty())
            rope = &ropes_.emplace_back(RopeSpec{std::move(inv_freq), halves ? RopePairing::halves : RopePairing::adjacent});
        const AttentionSpec spec{plane, n_heads, n_kv_heads, head_dim, scale, window};
        device_->qk_norm_rope({weight(q_norm), weight(k_norm), eps, rope, n_heads, n_kv_heads, head_dim});
        device_->kv_store(spec);
        device_->attention(spec);
    }
    void attention_gate() { device_->attention_gate(); }
    void glu(bool gelu) { device_->glu(gelu ? Activation::gelu_tanh : Activation::silu); }
    void residual_norm(int post, float post_eps, int next, float next_eps) {
        device_->residual_norm(weight(post), post_eps, weight(next), next_eps);
    }
    void tap() { device_->tap(); }
    void head(int norm, float eps, int w, int bias, float scale, float softcap) {
        picked_.resize(rows_.size());
        for (size_t i = 0; i < picked_.size(); ++i)
            picked_[i] = static_cast<int32_t>(i);
        n_logits_ = rows_.size();
        device_->head({weight(norm), eps, weight(w), weight(bias), scale, softcap}, picked_);
    }
    double commit() {
        const auto start = std::chrono::steady_clock::now();
        {
            Unlocked gil_released;
            device_->commit_and_wait(start + std::chrono::seconds(600));
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    Table logits() const {
        std::vector<float> all;
        for (size_t i = 0; i < n_logits_; ++i)
            all.insert(all.end(), device_->logits(i).begin(), device_->logits(i).end());
        return numpy(std::move(all), n_logits_, vocab_);
    }
    Table taps(size_t i) const {
        const std::span<const float> values = device_->taps(i);
        return numpy({values.begin(), values.end()}, rows_.size(), width_);
    }

  private:
    const Weight *weight(int i) const { return i < 0 ? nullptr : weights_.at(static_cast<size_t>(i)).get(); }
    static Table numpy(std::vector<float> values, size_t rows, size_t cols) {
        auto *kept = new std::vector<float>(std::move(values));
        nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<float> *>(p); });
        return Table(kept->data(), {rows, cols}, owner);
    }

    std::deque<std::unique_ptr<void, Free>> memory_; // outlives what borrows it
    std::unique_ptr<Device> device_;
    std::vector<std::unique_ptr<Weight>> weights_;
    std::vector<std::unique_ptr<KvStore>> sessions_;
    std::vector<Row> rows_;
    std::deque<RopeSpec> ropes_;
    std::vector<int32_t> picked_;
    size_t n_logits_ = 0, vocab_ = 0, width_ = 0;
};

} // namespace

void init_device_ops(nb::module_ &m) {
    using namespace nb::literals;
    nb::class_<DeviceOps>(m, "DeviceOps", "A device driven op by op. Weights are numbers that add_weight() returned; -1 is none.")
        .def(nb::init<const std::string &, std::optional<int>>(), "device"_a, "threads"_a = nb::none())
        .def_prop_ro("name", &DeviceOps::name)
        .def_prop_ro("description", &DeviceOps::description)
        .def("add_weight", &DeviceOps::add_weight, "type"_a, "data"_a, "rows"_a, "cols"_a, "vector"_a = false)
        .def("set_workspace", &DeviceOps::set_workspace, "max_rows"_a, "taps"_a, "vocab"_a, "widths"_a)
        .def("add_session", &DeviceOps::add_session, "planes"_a, "(rows, n_kv_heads, head_dim, \"f16\", \"f32\" or \"q8_0\", ring) of each plane.")
        .def("begin", &DeviceOps::begin, "sessions"_a, "tokens"_a, "positions"_a, "decode"_a)
        .def("embed", &DeviceOps::embed, "table"_a, "op"_a = 0, "x"_a = 0.0f)
        .def("norm", &DeviceOps::norm, "weight"_a, "eps"_a)
        .def("matmul", &DeviceOps::matmul, "source"_a, "products"_a, "(weight, bias, name of the output) of each product.")
        .def("attention", &DeviceOps::attention, "q_norm"_a, "k_norm"_a, "eps"_a, "inv_freq"_a, "halves"_a, "n_heads"_a, "n_kv_heads"_a,
             "head_dim"_a, "scale"_a, "window"_a, "plane"_a = 0, "Norm and rotation, store, attention.")
        .def("attention_gate", &DeviceOps::attention_gate)
        .def("glu", &DeviceOps::glu, "gelu"_a)
        .def("residual_norm", &DeviceOps::residual_norm, "post"_a, "post_eps"_a, "next"_a, "next_eps"_a)
        .def("tap", &DeviceOps::tap)
        .def("head", &DeviceOps::head, "norm"_a, "eps"_a, "weight"_a, "bias"_a = -1, "scale"_a = 1.0f, "softcap"_a = 0.0f)
        .def("commit", &DeviceOps::commit, "Runs what was recorded; returns the seconds it took.")
        .def("logits", &DeviceOps::logits, "float32 [rows, vocab].")
        .def("taps", &DeviceOps::taps, "i"_a, "float32 [rows, width of the residual].");
}

} // namespace muser::bindings
