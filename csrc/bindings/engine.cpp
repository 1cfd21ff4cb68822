// muser._muser.Engine: the engine by slot numbers. The Python classes wrap it; nothing here decides anything.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/bindings.h"
#include "bindings/gguf_file.h"
#include "bindings/kv_type.h"
#include "bindings/mask.h"
#include "bindings/open_device.h"
#include "bindings/path.h"
#include "bindings/unlocked.h"
#include "sample/logprobs.h"
#include "sample/sampler.h"
#include "session/engine.h"

#include <algorithm>
#include <string_view>

namespace muser::bindings {

namespace {

using ByteArray = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TokenArray = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::chrono::milliseconds milliseconds(const char *name, double seconds) {
    if (!(seconds >= 0 && seconds <= 1e9))
        throw parameter_error(name, "must be in 0..1e9 seconds", static_cast<int64_t>(seconds));
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::optional<uint32_t> rows_of(std::optional<int64_t> context) {
    if (context && (*context < 2 || *context > INT32_MAX))
        throw parameter_error("context", "must be at least 2", *context);
    return context ? std::optional(static_cast<uint32_t>(*context)) : std::nullopt;
}

// file: a GgufFile, which the engine then shares, or a path.
std::unique_ptr<Engine> load(nb::handle file, const std::string &device, int slots, std::optional<int64_t> context,
                             const std::string &kv_dtype, std::optional<int> threads, std::optional<int> prefill_patience,
                             std::optional<uint64_t> memory_limit, std::optional<uint64_t> prefix_cache, bool staging,
                             std::optional<double> pass_limit, std::optional<double> longest_prefill,
                             std::optional<double> pause_after) {
    const GgufFile *opened = nullptr;
    std::string path;
    if (!nb::try_cast(file, opened))
        path = to_path(file);
    EngineOptions options;
    options.slots = slots;
    options.kv_type = parse_kv(kv_dtype);
    options.prefill_patience = prefill_patience;
    options.memory_limit = memory_limit.value_or(0);
    options.prefix_cache = prefix_cache;
    options.staging = staging;
    if (pass_limit)
        options.pass_limit = milliseconds("pass_limit", *pass_limit);
    if (longest_prefill)
        options.longest_prefill = milliseconds("longest_prefill", *longest_prefill);
    if (pause_after)
        options.pause_after = milliseconds("pause_after", *pause_after);
    options.context = rows_of(context);
    Unlocked unlocked;
    const auto model = opened ? opened->model : gguf::Model::open(path);
    auto engine = std::make_unique<Engine>(model, open_device(device, threads), options);
    for (const auto &part : model->files())
        part->release(part->bytes()); // the metadata was read; who keeps the file will hardly need it again
    return engine;
}

nb::dict plan_dict(const MemoryPlan &plan) {
    nb::dict d;
    d["context"] = plan.context;
    d["slots"] = plan.slots;
    d["kv_dtype"] = kv_name(plan.kv_type);
    d["weights"] = plan.weights;
    d["mapped"] = plan.mapped;
    d["kv_per_slot"] = plan.kv_per_slot;
    d["staging"] = plan.staging;
    d["workspace"] = plan.workspace;
    d["retained_logits"] = plan.retained;
    d["total"] = plan.total;
    d["available"] = plan.available;
    d["prefix_cache"] = plan.prefix_cache;
    d["growing_planes"] = plan.growing_planes;
    d["growing_rows"] = plan.growing_rows;
    d["ring_planes"] = plan.ring_planes;
    d["ring_rows"] = plan.ring_rows;
    d["plane_row_bytes"] = plan.plane_row_bytes;
    return d;
}

nb::dict plan(const GgufFile &file, const std::string &device, int slots, std::optional<int64_t> context, const std::string &kv_dtype,
              std::optional<int> threads, std::optional<uint64_t> memory_limit, std::optional<uint64_t> prefix_cache, bool staging) {
    EngineOptions options;
    options.slots = slots;
    options.kv_type = parse_kv(kv_dtype);
    options.memory_limit = memory_limit.value_or(0);
    options.prefix_cache = prefix_cache;
    options.staging = staging;
    options.context = rows_of(context);
    return plan_dict(Engine::plan(*file.model, *open_device(device, threads), options));
}

nb::dict stats_dict(const EngineStats &stats) {
    nb::dict d;
    d["decode_turns"] = stats.scheduler.decode_turns;
    d["prefill_turns"] = stats.scheduler.prefill_turns;
    d["patience_turns"] = stats.scheduler.patience_turns;
    d["prefill_pauses"] = stats.scheduler.prefill_pauses;
    d["waiting_decodes"] = stats.scheduler.waiting_decodes;
    d["waiting_prefills"] = stats.scheduler.waiting_prefills;
    nb::list widths;
    for (uint64_t n : stats.batcher.groups_by_width)
        widths.append(n);
    d["groups_by_width"] = widths;
    d["rendezvous_waits"] = stats.batcher.rendezvous_waits;
    d["rendezvous_full"] = stats.batcher.rendezvous_full;
    d["rendezvous_expired"] = stats.batcher.rendezvous_expired;
    d["rendezvous_wait_seconds"] = static_cast<double>(stats.batcher.rendezvous_wait_ns) * 1e-9;
    d["queued_rows"] = stats.batcher.queued;
    d["prefill_tokens"] = stats.prefill_tokens;
    d["decode_tokens"] = stats.decode_tokens;
    d["prefill_seconds"] = static_cast<double>(stats.prefill_ns) * 1e-9;
    d["decode_seconds"] = static_cast<double>(stats.decode_ns) * 1e-9;
    d["reused_tokens"] = stats.reused_tokens;
    d["prefix_cache_entries"] = stats.prefixes.entries;
    d["prefix_cache_bytes"] = stats.prefixes.bytes;
    d["prefix_cache_limit"] = stats.prefixes.budget;
    d["prefix_cache_evicted"] = stats.prefixes.evicted;
    return d;
}

// A numpy array that owns its memory through `holder`.
template <class T> nb::object owning_array(const T *data, size_t n, auto holder) {
    auto *kept = new decltype(holder)(std::move(holder));
    nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<decltype(kept)>(p); });
    return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {n}, owner));
}

nb::object logits_array(Engine &engine, int slot) {
    Logits logits = engine.logits(slot);
    if (!logits)
        return nb::none();
    return owning_array(logits->data(), logits->size(), logits);
}

nb::object snapshot_array(Engine &engine, int slot) {
    std::shared_ptr<const std::vector<std::byte>> bytes;
    {
        Unlocked unlocked;
        bytes = std::make_shared<const std::vector<std::byte>>(engine.snapshot(slot));
    }
    return owning_array(reinterpret_cast<const uint8_t *>(bytes->data()), bytes->size(), bytes);
}

nb::object tokens_array(Engine &engine, int slot) {
    auto tokens = std::make_shared<const std::vector<int32_t>>(engine.tokens(slot));
    return owning_array(tokens->data(), tokens->size(), tokens);
}

bool blames(const Error &error, std::string_view parameter) {
    return error.code() == ErrorCode::parameter &&
           std::find(error.fields().begin(), error.fields().end(), Error::Field("parameter", std::string(parameter))) != error.fields().end();
}

// Logits that the model computed are not an argument of the caller: what cannot be sampled is the model's error.
template <class F> auto of_the_model(const Engine &engine, const F &call) {
    try {
        return call();
    } catch (const Error &error) {
        if (!blames(error, "logits"))
            throw;
        std::vector<Error::Field> fields{{"path", engine.path()}};
        for (const Error::Field &field : error.fields())
            if (field.first == "index")
                fields.push_back(field);
        throw Error(ErrorCode::logits,
                    engine.path() + ": the model computed logits that cannot be sampled: " + error.message() +
                        "; its weights or hyper-parameters are damaged",
                    std::move(fields));
    }
}

int32_t sample_row(const Engine &engine, const std::vector<float> &logits, Sampler &sampler, AllowedTokens mask = {}) {
    return of_the_model(engine, [&] { return sampler.sample(logits, mask); });
}

Logits retained(Engine &engine, int slot) {
    Logits logits = engine.logits(slot);
    if (!logits)
        throw Error(ErrorCode::parameter, "slot " + std::to_string(slot) + " has no logits: prefill or decode first",
                    {{"parameter", "slot"}, {"value", int64_t{slot}}});
    return logits;
}

nb::tuple scores_tuple(const RowLogprobs &row) {
    nb::list top;
    for (const TokenLogprob &entry : row.top)
        top.append(nb::make_tuple(entry.token, entry.logprob));
    return nb::make_tuple(row.chosen, nb::tuple(top));
}

nb::tuple logprobs(Engine &engine, int slot, int32_t token, int top) {
    RowLogprobs row;
    {
        Unlocked unlocked;
        row = of_the_model(engine, [&] { return row_logprobs(*retained(engine, slot), token, top); });
    }
    return scores_tuple(row);
}

nb::list prefill_scored(Engine &engine, int slot, TokenArray tokens, int top, std::optional<double> timeout) {
    std::vector<RowLogprobs> rows;
    {
        Unlocked unlocked;
        rows = of_the_model(engine, [&] { return engine.prefill_scored(slot, {tokens.data(), tokens.size()}, top, make_wait(timeout)); });
    }
    nb::list scored;
    for (const RowLogprobs &row : rows)
        scored.append(scores_tuple(row));
    return scored;
}

Pooling parse_pooling(const std::string &name) {
    if (name == "mean")
        return Pooling::mean;
    if (name == "last")
        return Pooling::last;
    if (name == "cls")
        return Pooling::cls;
    throw Error(ErrorCode::parameter, "pooling must be \"mean\", \"last\" or \"cls\", not \"" + name + "\"",
                {{"parameter", "pooling"}, {"value", name}});
}

nb::object embed(Engine &engine, int slot, TokenArray tokens, const std::string &pooling, std::optional<double> timeout) {
    std::shared_ptr<const std::vector<float>> vector;
    {
        const Pooling how = parse_pooling(pooling);
        Unlocked unlocked;
        vector = std::make_shared<const std::vector<float>>(engine.embed(slot, {tokens.data(), tokens.size()}, how, make_wait(timeout)));
    }
    return owning_array(vector->data(), vector->size(), vector);
}

int32_t sample(Engine &engine, int slot, Sampler &sampler, std::optional<TokenMask> mask) {
    const auto words = words_of(mask);
    Unlocked unlocked;
    return sample_row(engine, *retained(engine, slot), sampler, words);
}

std::vector<int32_t> greedy(Engine &engine, int slot, int32_t token, int n, const std::vector<int32_t> &stop, std::optional<double> timeout,
                            bool keeps_logits) {
    Unlocked unlocked;
    GreedyRun run = engine.greedy(slot, token, n, stop, make_wait(timeout), keeps_logits);
    if (run.empty()) { // throws
        SamplerParams params;
        params.temperature = 0;
        Sampler sampler(params);
        sample_row(engine, *retained(engine, slot), sampler);
    }
    return run;
}

void decode_group(Engine &engine, const std::vector<int> &slots, const std::vector<int32_t> &tokens, std::optional<double> timeout) {
    if (slots.size() != tokens.size())
        throw parameter_error("tokens", "must be as many as slots (" + std::to_string(slots.size()) + ")", static_cast<int64_t>(tokens.size()));
    std::vector<std::pair<int, int32_t>> rows;
    for (size_t i = 0; i < slots.size(); ++i)
        rows.emplace_back(slots[i], tokens[i]);
    Unlocked unlocked;
    engine.decode_group(rows, make_wait(timeout));
}

} // namespace

void init_engine(nb::module_ &m) {
    using namespace nb::literals;
    m.def("memory_plan", &plan, "file"_a, nb::kw_only(), "device"_a, "slots"_a, "context"_a.none(), "kv_dtype"_a, "threads"_a.none(),
          "memory_limit"_a.none(), "prefix_cache_bytes"_a.none(), "staging"_a);
    nb::class_<Engine>(m, "Engine")
        .def(nb::new_(&load), "file"_a, nb::kw_only(), "device"_a, "slots"_a, "context"_a.none(), "kv_dtype"_a, "threads"_a.none(),
             "prefill_patience"_a.none(), "memory_limit"_a.none(), "prefix_cache_bytes"_a.none() = nb::none(), "staging"_a = false,
             "pass_limit"_a = nb::none(), "longest_prefill"_a = nb::none(),
             "pause_after"_a = nb::none())
        .def_prop_ro("architecture", [](const Engine &e) { return e.hparams().architecture; })
        .def_prop_ro("context", [](const Engine &e) { return e.memory_plan().context; })
        .def_prop_ro("model_context", [](const Engine &e) { return e.hparams().context; })
        .def_prop_ro("vocab", [](const Engine &e) { return e.hparams().vocab; })
        .def_prop_ro("width", [](const Engine &e) { return e.hparams().d_model; })
        .def_prop_ro("slots", &Engine::slots)
        .def_prop_ro("device_name", [](const Engine &e) { return e.device_info().name; })
        .def_prop_ro("device_description", [](const Engine &e) { return e.device_info().description; })
        .def_prop_ro("host_threads", [](const Engine &e) { return e.device_info().host_threads; })
        .def("memory_plan", [](const Engine &e) { return plan_dict(e.memory_plan()); })
        .def("prefill",
             [](Engine &e, int slot, TokenArray tokens, std::optional<double> timeout, bool reuse) {
                 Unlocked unlocked;
                 return e.prefill(slot, {tokens.data(), tokens.size()}, make_wait(timeout), reuse);
             },
             "slot"_a, "tokens"_a, "timeout"_a.none(), "reuse"_a = false)
        .def("decode",
             [](Engine &e, int slot, int32_t token, std::optional<double> timeout) {
                 Unlocked unlocked;
                 e.decode(slot, token, make_wait(timeout));
             },
             "slot"_a, "token"_a, "timeout"_a.none())
        .def("prefill_scored", &prefill_scored, "slot"_a, "tokens"_a, "top"_a, "timeout"_a.none())
        .def("embed", &embed, "slot"_a, "tokens"_a, "pooling"_a, "timeout"_a.none())
        .def("fork",
             [](Engine &e, int from, int to, std::optional<double> timeout) {
                 Unlocked unlocked;
                 e.fork(from, to, make_wait(timeout));
             },
             "source"_a, "into"_a, "timeout"_a.none())
        .def("greedy", &greedy, "slot"_a, "token"_a, "n"_a, "stop"_a, "timeout"_a.none(), "keeps_logits"_a = true)
        .def("decode_group", &decode_group, "slots"_a, "tokens"_a, "timeout"_a.none())
        .def("sample", &sample, "slot"_a, "sampler"_a, "mask"_a = nb::none())
        .def("step",
             [](Engine &e, int slot, int32_t token, Sampler &sampler, std::optional<double> timeout, std::optional<TokenMask> mask) {
                 const auto words = words_of(mask);
                 Unlocked unlocked;
                 e.decode(slot, token, make_wait(timeout));
                 return sample_row(e, *e.logits(slot), sampler, words);
             },
             "slot"_a, "token"_a, "sampler"_a, "timeout"_a.none(), "mask"_a = nb::none())
        .def("logprobs", &logprobs, "slot"_a, "token"_a, "top"_a)
        .def("logits", &logits_array, "slot"_a)
        .def("tokens", &tokens_array, "slot"_a)
        .def("position", &Engine::position, "slot"_a)
        .def("rewind", &Engine::rewind, "slot"_a, "to"_a)
        .def("reset", &Engine::reset, "slot"_a)
        .def("reusable",
             [](Engine &e, int slot, TokenArray tokens) { return e.reusable(slot, {tokens.data(), tokens.size()}); }, "slot"_a,
             "tokens"_a)
        .def("retained", &Engine::retained, "slot"_a)
        .def("shift",
             [](Engine &e, int slot, TokenArray tokens, std::optional<double> timeout) {
                 Unlocked unlocked;
                 e.shift(slot, {tokens.data(), tokens.size()}, make_wait(timeout));
             },
             "slot"_a, "tokens"_a, "timeout"_a.none())
        .def("snapshot", &snapshot_array, "slot"_a)
        .def("restore",
             [](Engine &e, int slot, ByteArray snapshot) {
                 Unlocked unlocked;
                 e.restore(slot, {reinterpret_cast<const std::byte *>(snapshot.data()), snapshot.size()});
             },
             "slot"_a, "snapshot"_a)
        .def("cancel", &Engine::cancel, "slot"_a)
        .def("clear_cancel", &Engine::clear_cancel, "slot"_a)
        .def("leave_decode", &Engine::leave_decode, "slot"_a)
        .def("stats", [](const Engine &e) { return stats_dict(e.stats()); })
        .def("unhealthy_cause", &Engine::unhealthy_cause)
        .def("close",
             [](Engine &e, double grace) {
                 if (Unlocked::this_thread_is_inside()) // which it cannot leave before this returns
                     grace = 0;
                 Unlocked unlocked;
                 return e.close(std::chrono::milliseconds(static_cast<int64_t>(grace * 1000)));
             },
             "grace"_a = 5.0);
}

} // namespace muser::bindings
