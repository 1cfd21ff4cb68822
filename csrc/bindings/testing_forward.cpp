// muser._muser.testing.forward_taps: a whole pass with every row's logits and residuals, for the oracle tests.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "bindings/bindings.h"
#include "bindings/kv_type.h"
#include "bindings/open_device.h"
#include "gguf/file.h"
#include "kv/planes.h"
#include "model/graph.h"

namespace muser::bindings {

namespace {

using TokenArray = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object numpy3(std::vector<float> values, std::vector<size_t> shape) {
    auto *kept = new std::vector<float>(std::move(values));
    nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<float> *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, float>(kept->data(), shape.size(), shape.data(), owner));
}

// One pass over all tokens from position 0: logits [T, vocab] and the residual before every layer and after
// the last, [n_layers + 1, T, d_model].
nb::tuple forward_taps(const std::string &path, TokenArray ids, const std::string &kv_dtype, std::optional<int> threads, const std::string &device_name) {
    auto file = gguf::Model::open(path);
    auto device = open_device(device_name, threads);
    const HParams h = read_hparams(*file);
    WeightTable table = bind_weights(*file, h);
    const Weights weights(table, *device);
    const auto n = static_cast<uint32_t>(ids.size());
    device->set_workspace(workspace_spec(h, n, n, h.n_layers + 1));
    const std::vector<PlaneSpec> planes = plane_specs(h, n, parse_kv(kv_dtype));
    // More rows of one pass would overwrite keys that its first rows still read.
    if (n > kRingMargin && std::ranges::any_of(planes, [](const PlaneSpec &plane) { return plane.ring; }))
        throw parameter_error("ids", "must hold at most " + std::to_string(kRingMargin) + " tokens", n);
    auto kv = device->make_kv(planes);

    std::vector<Row> rows;
    for (uint32_t i = 0; i < n; ++i)
        rows.push_back({kv.get(), ids.data()[i], static_cast<int32_t>(i)});
    std::vector<int32_t> logit_rows(n);
    std::iota(logit_rows.begin(), logit_rows.end(), 0);
    std::vector<uint32_t> taps(h.n_layers + 1);
    std::iota(taps.begin(), taps.end(), 0u);
    forward(*device, h, table, weights, {rows, logit_rows, taps, PassKind::prefill}, {});

    std::vector<float> logits, residuals;
    for (uint32_t i = 0; i < n; ++i)
        logits.insert(logits.end(), device->logits(i).begin(), device->logits(i).end());
    for (uint32_t i = 0; i <= h.n_layers; ++i)
        residuals.insert(residuals.end(), device->taps(i).begin(), device->taps(i).end());
    return nb::make_tuple(numpy3(std::move(logits), {n, h.vocab}), numpy3(std::move(residuals), {h.n_layers + 1, n, h.d_model}));
}

} // namespace

void init_testing_forward(nb::module_ &testing) {
    using namespace nb::literals;
    testing.def("forward_taps", &forward_taps, "path"_a, "ids"_a, "kv_dtype"_a = "f16", "threads"_a = nb::none(), "device"_a = "cpu");
}

} // namespace muser::bindings
