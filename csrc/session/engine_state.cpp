#include "session/engine_state.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gguf/dequant.h"
#include "kv/planes.h"

namespace muser {

namespace {

std::vector<float> values_of(const TensorView &tensor) {
    std::vector<float> values(tensor.rows * tensor.cols);
    gguf::dequantize(tensor.type, tensor.data.data(), values.data(), values.size());
    return values;
}

bool keeps_file(const WeightTable &table, const Device &device) {
    return std::ranges::any_of(table.sources, [&](const WeightSource &source) { return device.keeps_file(source.view.type, source.use); });
}

} // namespace

int32_t first_maximum(std::span<const float> logits) {
    float best = -INFINITY;
    int32_t at = -1;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (std::isnan(logits[i]))
            return -1;
        if (logits[i] > best) {
            best = logits[i];
            at = static_cast<int32_t>(i);
        }
    }
    return at;
}

Engine::State::State(const HParams &h, WeightTable weight_table, std::unique_ptr<Device> dev, const MemoryPlan &memory,
                     const EngineOptions &options, std::shared_ptr<const gguf::Model> file)
    : hparams(h), table(std::move(weight_table)), plan(memory), mapping(keeps_file(table, *dev) ? std::move(file) : nullptr),
      device(std::move(dev)), planes(plane_specs(h, memory.context, options.kv_type)),
      prefixes(memory.prefix_cache, !device->info().decode_equals_prefill), scheduler(options.prefill_patience),
      batcher([this](std::span<const DecodeBatcher::Row> rows) { return run_batch(rows); }),
      pass_limit(options.pass_limit), patient(options.prefill_patience.has_value()), can_pause(device->info().pauses),
      chunk_rule(options.longest_prefill.value_or(device->info().longest_prefill)), pause_rule(options.pause_after) {
    weights = std::make_unique<Weights>(table, *device);
    output_norm = values_of(table.sources[static_cast<size_t>(table.output_norm)].view);
    table.sources.clear();
    device->set_workspace(workspace_spec(h, std::min(plan.context, kRingMargin), kMaxLogitRows, kMaxTaps));
    can_choose = device->can_choose(head_spec(h, table, *weights));
    for (int slot = 0; slot < plan.slots; ++slot)
        sessions.push_back(std::make_unique<Session>(slot, device->make_kv(planes), RewindLimit(h, planes)));
    if (options.staging)
        staging = std::make_unique<Session>(plan.slots, device->make_kv(planes), RewindLimit(h, planes));
}

Session &Engine::State::session(int slot) {
    if (slot < 0 || slot >= plan.slots)
        throw parameter_error("slot", "must be in 0.." + std::to_string(plan.slots - 1), slot);
    return *sessions[static_cast<size_t>(slot)];
}

void Engine::State::check_token(int32_t token) const {
    if (token < 0 || static_cast<uint32_t>(token) >= hparams.vocab)
        throw parameter_error("token", "must be in 0.." + std::to_string(hparams.vocab - 1), token);
}

void Engine::State::check_room(const Session &session, size_t n) const {
    const uint32_t position = session.position();
    if (n > plan.context - position)
        throw Error(ErrorCode::context_full,
                    std::to_string(n) + " more tokens at position " + std::to_string(position) + " do not fit into a context of " +
                        std::to_string(plan.context),
                    {{"position", int64_t{position}}, {"capacity", int64_t{plan.context}}});
}

size_t Engine::State::prefill(Session &session, std::span<const int32_t> tokens, const Wait &wait, bool reuse, Harvest harvest,
                              const std::function<void(const Chunk &)> &each) {
    if (tokens.empty())
        throw Error(ErrorCode::parameter, "tokens must not be empty", {{"parameter", "tokens"}, {"value", "[]"}});
    for (int32_t token : tokens)
        check_token(token);
    check_room(session, tokens.size());
    batcher.leave(session.id());

    Wait chunk_wait = wait;
    chunk_wait.cancelled = &session.cancelled();
    chunk_wait.check();
    const size_t reused = reuse ? reuse_prefix(session, tokens) : 0;
    tokens = tokens.subspan(reused);
    while (!tokens.empty()) {
        chunk_wait.check();
        const Chunk chunk = run_chunk(session, tokens, chunk_wait, harvest);
        if (each)
            each(chunk);
        tokens = tokens.subspan(chunk.tokens.size());
    }
    return reused;
}

Engine::State::Chunk Engine::State::run_chunk(Session &session, std::span<const int32_t> left, const Wait &wait, Harvest harvest) {
    auto permit = scheduler.acquire(Work::prefill, session.id(), wait);
    const bool somebody_waits = !can_pause && (batcher.expected() > 0 || scheduler.decode_waiting());
    auto most = static_cast<size_t>(chunk_rule.rows(somebody_waits));
    if (harvest == Harvest::every_logits)
        most = std::min<size_t>(most, kMaxLogitRows);
    Chunk chunk{left.first(std::min(left.size(), most)), {}, {}};
    const std::span<const int32_t> tokens = chunk.tokens;
    Stopwatch watch(prefill_ns);
    Wait pass_wait = wait;
    if (patient) // a pass with an end in sight is brought to it: a caller who tries again and again must get on
        pass_wait.deadline.reset();
    DecoderPauses pauses(scheduler, permit, pause_rule, pass_wait, watch);
    const auto position = static_cast<int32_t>(session.position());
    std::vector<Row> rows(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i)
        rows[i] = {&session.kv(), tokens[i], position + static_cast<int32_t>(i)};
    std::vector<int32_t> logit_rows(harvest == Harvest::every_logits ? tokens.size() : size_t{tokens.size() == left.size()});
    std::iota(logit_rows.begin(), logit_rows.end(), static_cast<int32_t>(tokens.size() - logit_rows.size()));
    const uint32_t last_residual = hparams.n_layers;
    session.will_write(static_cast<uint32_t>(tokens.size()));
    forward_or_latch({rows, logit_rows, {&last_residual, harvest == Harvest::residuals ? size_t{1} : size_t{0}}, PassKind::prefill}, pauses);
    if (harvest == Harvest::last_logits) // others take longer than a prompt's
        chunk_rule.measured(static_cast<int>(tokens.size()), watch.read());
    for (size_t i = 0; i < logit_rows.size(); ++i)
        chunk.logits.push_back(copy_logits(i));
    if (harvest == Harvest::residuals)
        chunk.residuals.assign(device->taps(0).begin(), device->taps(0).end());
    session.install(tokens, chunk.logits.empty() ? nullptr : chunk.logits.back(), Work::prefill);
    prefill_tokens += tokens.size();
    return chunk;
}

void Engine::State::run_group(std::span<const Member> members, const Wait &wait) {
    std::array<SequenceId, kMaxGroup> ids;
    std::array<Row, kMaxGroup> rows;
    std::array<int32_t, kMaxGroup> logit_rows;
    const size_t n = members.size();
    for (size_t i = 0; i < n; ++i)
        ids[i] = members[i].session->id();
    auto permit = scheduler.acquire_group(std::span(ids).first(n), wait);
    Stopwatch watch(decode_ns);
    for (size_t i = 0; i < n; ++i) {
        Session &session = *members[i].session;
        rows[i] = {&session.kv(), members[i].token, static_cast<int32_t>(session.position())};
        logit_rows[i] = static_cast<int32_t>(i);
        session.will_write(1);
    }
    // Whoever wants logits brings the others theirs: the pass reads all weights then.
    const bool choose = can_choose && std::ranges::all_of(members, &Member::choice);
    ForwardRequest request{std::span(rows).first(n), std::span(logit_rows).first(n), {}, PassKind::decode};
    request.choices = choose;
    forward_or_latch(request);
    pause_rule.decode_took(watch.read());
    // All copies before any install: running out of memory here must not leave half a group installed.
    std::array<Logits, kMaxGroup> logits;
    for (size_t i = 0; i < n; ++i)
        if (members[i].choice)
            choices[static_cast<size_t>(ids[i])] = choose ? device->chosen(i) : first_maximum(device->logits(i));
        else
            logits[i] = copy_logits(i);
    for (size_t i = 0; i < n; ++i)
        members[i].session->install({&members[i].token, 1}, std::move(logits[i]), Work::decode);
    decode_tokens += n;
}

std::array<std::exception_ptr, kMaxGroup> Engine::State::run_batch(std::span<const DecodeBatcher::Row> rows) {
    std::array<Member, kMaxGroup> members;
    for (size_t i = 0; i < rows.size(); ++i)
        members[i] = {&session(rows[i].sequence), rows[i].token, rows[i].choice};
    // The runner carries other callers' rows: its own cancellation or Ctrl-C must not drop them. The wait is
    // bounded by the pass in progress and at most one prefill chunk.
    Wait wait;
    wait.deadline = Clock::now() + 2 * pass_limit;
    run_group(std::span(members).first(rows.size()), wait);
    return {};
}

void Engine::State::forward_or_latch(const ForwardRequest &request) {
    or_latch([&] { forward(*device, hparams, table, *weights, request, Clock::now() + pass_limit); });
}

void Engine::State::forward_or_latch(ForwardRequest request, const DecoderPauses &pauses) {
    request.pauses = &pauses.hooks();
    or_latch([&] {
        try {
            forward(*device, hparams, table, *weights, request, Clock::now() + pass_limit);
        } catch (...) {
            if (!pauses.given_up())
                throw;
        }
    });
    if (pauses.given_up())
        std::rethrow_exception(pauses.given_up());
}

Logits Engine::State::copy_logits(size_t i) const {
    const std::span<const float> row = device->logits(i);
    return std::make_shared<const std::vector<float>>(row.begin(), row.end());
}

} // namespace muser
