// muser._muser.Sampler: logits in, one token out. The engine samples with it, and so do callers that have their own rows.
#include "bindings/bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/mask.h"
#include "sample/sampler.h"
#include "sample/state.h"

namespace muser::bindings {

namespace {

using LogitsRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TokenArray = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<std::string> default_samplers() { return {kStepNames.begin(), kStepNames.end()}; }

void make(Sampler *self, double temperature, double dynatemp_range, double dynatemp_exponent, int32_t top_k, double top_p, double min_p,
          double typical_p, double top_n_sigma, double xtc_probability, double xtc_threshold, double repetition_penalty,
          double presence_penalty, double frequency_penalty, int32_t penalty_last_n, double dry_multiplier, double dry_base,
          int32_t dry_allowed_length, int32_t dry_penalty_last_n, std::vector<std::vector<int32_t>> dry_breakers, int32_t mirostat,
          double mirostat_tau, double mirostat_eta, double adaptive_target, double adaptive_decay,
          std::vector<std::pair<int32_t, double>> logit_bias, const std::vector<std::string> &samplers, uint64_t seed) {
    SamplerParams p;
    p.temperature = temperature;
    p.dynatemp_range = dynatemp_range;
    p.dynatemp_exponent = dynatemp_exponent;
    p.top_k = top_k;
    p.top_p = top_p;
    p.min_p = min_p;
    p.typical_p = typical_p;
    p.top_n_sigma = top_n_sigma;
    p.xtc_probability = xtc_probability;
    p.xtc_threshold = xtc_threshold;
    p.repetition_penalty = repetition_penalty;
    p.presence_penalty = presence_penalty;
    p.frequency_penalty = frequency_penalty;
    p.penalty_last_n = penalty_last_n;
    p.dry_multiplier = dry_multiplier;
    p.dry_base = dry_base;
    p.dry_allowed_length = dry_allowed_length;
    p.dry_penalty_last_n = dry_penalty_last_n;
    p.dry_breakers = std::move(dry_breakers);
    p.mirostat = mirostat;
    p.mirostat_tau = mirostat_tau;
    p.mirostat_eta = mirostat_eta;
    p.adaptive_target = adaptive_target;
    p.adaptive_decay = adaptive_decay;
    p.logit_bias = std::move(logit_bias);
    p.samplers = parse_samplers(samplers);
    p.seed = seed;
    new (self) Sampler(p);
}

nb::bytes state_bytes(const Sampler &sampler) {
    const auto bytes = save_state(sampler);
    return nb::bytes(bytes.data(), bytes.size());
}

} // namespace

void init_sample(nb::module_ &m) {
    using namespace nb::literals;
    const SamplerParams p;
    nb::class_<Sampler>(m, "Sampler", "From one row of logits to one token; owns its random streams. docs/sampling.md has the rules.")
        .def("__init__", &make, nb::kw_only(), "temperature"_a = p.temperature, "dynatemp_range"_a = p.dynatemp_range,
             "dynatemp_exponent"_a = p.dynatemp_exponent, "top_k"_a = p.top_k, "top_p"_a = p.top_p, "min_p"_a = p.min_p,
             "typical_p"_a = p.typical_p, "top_n_sigma"_a = p.top_n_sigma, "xtc_probability"_a = p.xtc_probability,
             "xtc_threshold"_a = p.xtc_threshold, "repetition_penalty"_a = p.repetition_penalty,
             "presence_penalty"_a = p.presence_penalty, "frequency_penalty"_a = p.frequency_penalty,
             "penalty_last_n"_a = p.penalty_last_n, "dry_multiplier"_a = p.dry_multiplier, "dry_base"_a = p.dry_base,
             "dry_allowed_length"_a = p.dry_allowed_length, "dry_penalty_last_n"_a = p.dry_penalty_last_n,
             "dry_breakers"_a = p.dry_breakers, "mirostat"_a = p.mirostat, "mirostat_tau"_a = p.mirostat_tau,
             "mirostat_eta"_a = p.mirostat_eta, "adaptive_target"_a = p.adaptive_target, "adaptive_decay"_a = p.adaptive_decay,
             "logit_bias"_a = p.logit_bias, "samplers"_a = default_samplers(), "seed"_a = p.seed)
        // All hold the GIL: they take microseconds, and a sampler must not be used by two threads at once.
        .def(
            "sample",
            [](Sampler &self, LogitsRow logits, std::optional<TokenMask> mask) {
                return self.sample({logits.data(), logits.size()}, words_of(mask));
            },
            "logits"_a, "mask"_a = nb::none(),
            "The next token for float32 logits [vocab], accepted. mask: None, or uint32 [ceil(vocab / 32)], in which bit i % 32 "
            "of word i / 32 allows token i.")
        .def(
            "accept", [](Sampler &self, TokenArray tokens) { self.accept({tokens.data(), tokens.size()}); }, "tokens"_a,
            "Tokens that came from elsewhere (the prompt): what penalties and DRY look back at.")
        .def("suppress", &Sampler::suppress, "tokens"_a, "These ids count as -inf from now on; empty: none. Not part of the state.")
        .def("state", &state_bytes, "Random streams, mirostat's and adaptive-p's memory, and the tokens looked back at.")
        .def(
            "restore",
            [](Sampler &self, nb::bytes state) {
                restore_state(self, {static_cast<const uint8_t *>(state.data()), state.size()});
            },
            "state"_a, "ParameterError if it is damaged or of a sampler with other parameters; nothing changes then.")
        .def("copy", [](const Sampler &self) { return new Sampler(self); }, nb::rv_policy::take_ownership, "An independent twin.");
}

} // namespace muser::bindings
