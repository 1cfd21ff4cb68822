// muser._muser.Sampler: logits in, one token out, for callers that sample outside the engine.
#include "bindings/bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "bindings/mask.h"
#include "sample/sampler.h"

namespace muser::bindings {

namespace {

using LogitsRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

} // namespace

void init_sample(nb::module_ &m) {
    nb::class_<Sampler>(m, "Sampler", "From one row of logits to one token; owns one random stream.")
        .def(
            "__init__",
            [](Sampler *self, double temperature, int32_t top_k, double top_p, double min_p, uint64_t seed) {
                new (self) Sampler(SamplerParams{temperature, top_k, top_p, min_p, seed});
            },
            nb::kw_only(), nb::arg("temperature") = 1.0, nb::arg("top_k") = 0, nb::arg("top_p") = 1.0,
            nb::arg("min_p") = 0.0, nb::arg("seed") = 0)
        .def("suppress", &Sampler::suppress, nb::arg("tokens"), "These ids count as -inf from now on; empty: none.")
        // Holds the GIL: it takes microseconds, and a sampler must not be used by two threads at once.
        .def(
            "sample",
            [](Sampler &self, LogitsRow logits, std::optional<TokenMask> mask) {
                return self.sample({logits.data(), logits.size()}, words_of(mask));
            },
            nb::arg("logits"), nb::arg("mask") = nb::none(),
            "The next token for float32 logits [vocab]. One draw, or none at temperature 0. mask: None, or uint32 "
            "[ceil(vocab / 32)], in which bit i % 32 of word i / 32 allows token i.");
}

} // namespace muser::bindings
