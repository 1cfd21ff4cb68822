#include "session/engine.h"

#include <algorithm>
#include <thread>

#include "session/engine_state.h"
#include "session/snapshot.h"

namespace muser {

namespace {

void check_options(const EngineOptions &options) {
    if (options.slots < 1 || options.slots > kMaxGroup)
        throw parameter_error("slots", "must be in 1.." + std::to_string(kMaxGroup), options.slots);
}

} // namespace

MemoryPlan Engine::plan(const gguf::Model &file, const Device &device, const EngineOptions &options) {
    check_options(options);
    const HParams hparams = read_hparams(file);
    return plan_memory(hparams, bind_weights(file, hparams), device, options.slots, options.context, options.kv_type, options.memory_limit,
                       options.prefix_cache, options.staging);
}

Engine::Engine(const std::shared_ptr<const gguf::Model> &file, std::unique_ptr<Device> device, const EngineOptions &options)
    : path_(file->path()), hparams_(read_hparams(*file)), info_(device->info()) {
    check_options(options);
    WeightTable table = bind_weights(*file, hparams_);
    plan_ = plan_memory(hparams_, table, *device, options.slots, options.context, options.kv_type, options.memory_limit, options.prefix_cache,
                        options.staging);
    state_ = std::make_shared<State>(hparams_, std::move(table), std::move(device), plan_, options, file);
}

Engine::~Engine() { close(std::chrono::milliseconds(0)); }

std::shared_ptr<Engine::State> Engine::enter() const {
    std::lock_guard lock(mutex_);
    if (!state_)
        throw closed_error();
    return state_;
}

size_t Engine::prefill(int slot, std::span<const int32_t> tokens, const Wait &wait, bool reuse) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    return state->prefill(session, tokens, wait, reuse && state->plan.prefix_cache > 0);
}

std::vector<RowLogprobs> Engine::prefill_scored(int slot, std::span<const int32_t> tokens, int top, const Wait &wait) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    std::vector<RowLogprobs> scored;
    state->prefill(session, tokens, wait, false, State::Harvest::every_logits, [&](const State::Chunk &chunk) {
        for (const Logits &logits : chunk.logits)
            if (scored.size() + 1 < tokens.size())
                scored.push_back(row_logprobs(*logits, tokens[scored.size() + 1], top));
    });
    return scored;
}

std::vector<float> Engine::embed(int slot, std::span<const int32_t> tokens, Pooling pooling, const Wait &wait) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    HiddenPool pool(pooling, state->output_norm, state->hparams.norm_eps);
    state->prefill(session, tokens, wait, false, State::Harvest::residuals, [&](const State::Chunk &chunk) { pool.add(chunk.residuals); });
    return pool.result();
}

void Engine::fork(int from, int to, const Wait &wait) {
    auto state = enter();
    Session &source = state->session(from), &copy = state->session(to);
    Session::Use use_source(source), use_copy(copy); // the same one twice: Error{busy}
    state->batcher.leave(to);
    Wait turn_wait = wait;
    turn_wait.cancelled = &copy.cancelled();
    auto permit = state->scheduler.acquire(Work::prefill, copy.id(), turn_wait); // the planes may be the device's memory
    state->copy_rows(source, copy);
}

void Engine::decode(int slot, int32_t token, const Wait &wait) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    state->check_token(token);
    state->check_room(session, 1);
    Wait row_wait = wait;
    row_wait.cancelled = &session.cancelled();
    state->batcher.decode(slot, token, row_wait);
}

void Engine::decode_group(std::span<const std::pair<int, int32_t>> rows, const Wait &wait) {
    auto state = enter();
    if (rows.empty() || rows.size() > static_cast<size_t>(kMaxGroup))
        throw parameter_error("rows", "must hold 1.." + std::to_string(kMaxGroup) + " sessions", static_cast<int64_t>(rows.size()));
    std::vector<State::Member> members;
    std::vector<std::unique_ptr<Session::Use>> uses; // the same session twice: Error{busy}
    for (const auto &[slot, token] : rows) {
        Session &session = state->session(slot);
        uses.push_back(std::make_unique<Session::Use>(session));
        state->check_token(token);
        state->check_room(session, 1);
        if (session.cancelled())
            throw Error(ErrorCode::cancelled, "session " + std::to_string(slot) + " was cancelled");
        members.push_back({&session, token});
    }
    state->run_group(members, wait);
}

void Engine::leave_decode(int slot) {
    auto state = enter();
    state->session(slot);
    state->batcher.leave(slot);
}

void Engine::rewind(int slot, int64_t to) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    session.rewind(to);
}

void Engine::reset(int slot) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    state->batcher.leave(slot);
    session.reset();
}

size_t Engine::reusable(int slot, std::span<const int32_t> tokens) {
    auto state = enter();
    const Session &session = state->session(slot);
    return state->plan.prefix_cache > 0 ? session.reusable(tokens, state->prefixes.prefilled_only()) : 0;
}

size_t Engine::retained(int slot) { return enter()->session(slot).retained(); }

void Engine::shift(int slot, std::span<const int32_t> tokens, const Wait &wait) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    if (!state->staging)
        throw Error(ErrorCode::parameter, "context_policy must be \"shift\" for a context to be shifted",
                    {{"parameter", "context_policy"}, {"value", "error"}});
    if (tokens.empty() || tokens.size() > state->plan.context)
        throw parameter_error("tokens", "must be 1.." + std::to_string(state->plan.context), static_cast<int64_t>(tokens.size()));
    for (int32_t token : tokens)
        state->check_token(token);
    Wait shift_wait = wait;
    shift_wait.cancelled = &session.cancelled();
    state->batcher.leave(slot);
    state->shift(session, tokens, shift_wait);
}

std::vector<std::byte> Engine::snapshot(int slot) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    return take_snapshot(session, state->planes);
}

void Engine::restore(int slot, std::span<const std::byte> snapshot) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    state->batcher.leave(slot);
    install_snapshot(session, state->planes, state->hparams.vocab, state->plan.context, snapshot);
}

void Engine::cancel(int slot) { enter()->session(slot).cancel(); }
void Engine::clear_cancel(int slot) { enter()->session(slot).clear_cancel(); }
std::vector<int32_t> Engine::tokens(int slot) { return enter()->session(slot).tokens(); }
uint32_t Engine::position(int slot) { return enter()->session(slot).position(); }
Logits Engine::logits(int slot) { return enter()->session(slot).logits(); }

EngineStats Engine::stats() const {
    auto state = enter();
    return {state->scheduler.stats(), state->batcher.stats(), state->prefill_tokens, state->decode_tokens,
            state->prefill_ns,        state->decode_ns,       state->reused_tokens,  state->prefixes.stats()};
}

std::optional<std::string> Engine::unhealthy_cause() const { return enter()->scheduler.unhealthy_cause(); }

bool Engine::close(std::chrono::milliseconds grace) {
    std::weak_ptr<State> last;
    {
        std::lock_guard lock(mutex_);
        if (!state_)
            return true;
        state_->scheduler.close();
        last = state_;
        state_.reset();
    }
    const auto deadline = Clock::now() + grace;
    while (!last.expired() && Clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return last.expired();
}

} // namespace muser
