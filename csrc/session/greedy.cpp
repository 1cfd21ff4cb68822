// Greedy decoding of several tokens in one call: by steps, in company like any decoder, or, alone and on a device that
// can, as a chain in which the host only looks on.
#include <algorithm>
#include <array>
#include <exception>

#include "session/engine_state.h"

namespace muser {

namespace {

bool holds(std::span<const int32_t> tokens, int32_t token) { return std::ranges::find(tokens, token) != tokens.end(); }

bool is_over(const Wait &wait) {
    return (wait.cancelled && *wait.cancelled) || (wait.deadline && Clock::now() >= *wait.deadline);
}

} // namespace

GreedyRun Engine::greedy(int slot, int32_t token, int n, std::span<const int32_t> stop, const Wait &wait, bool keeps_logits) {
    auto state = enter();
    Session &session = state->session(slot);
    Session::Use use(session);
    state->check_token(token);
    if (n < 1 || n > static_cast<int>(kMostLinks))
        throw parameter_error("n", "must be in 1.." + std::to_string(kMostLinks), n);
    state->check_room(session, 1);
    n = std::min(n, static_cast<int>(state->plan.context - session.position()));
    Wait row_wait = wait;
    row_wait.cancelled = &session.cancelled();
    const bool in_company = state->batcher.expects_another(slot);
    return n > 1 && !in_company && state->device->has_chains() ? state->greedy_by_chain(session, token, n, stop, row_wait)
                                                               : state->greedy_by_steps(session, token, n, stop, row_wait, keeps_logits);
}

GreedyRun Engine::State::greedy_by_steps(Session &session, int32_t token, int n, std::span<const int32_t> stop, const Wait &wait,
                                         bool keeps_logits) {
    GreedyRun run;
    const auto forget_row = [&] { session.rewind(int64_t{session.position()} - 1); };
    for (int i = 0; i < n; ++i) {
        if (i > 0 && is_over(wait))
            break;
        try {
            batcher.decode({session.id(), token, !keeps_logits}, wait);
        } catch (const Error &error) { // nothing of this row; those before it are the caller's
            if (i == 0 || (error.code() != ErrorCode::cancelled && error.code() != ErrorCode::timeout))
                throw;
            break;
        }
        const int32_t chosen = keeps_logits ? first_maximum(*session.logits()) : choices[static_cast<size_t>(session.id())];
        if (chosen < 0) { // the next call finds it again, and has nothing to return but logits that say why: a second pass
            if (i > 0 || !keeps_logits)
                forget_row();
            if (i == 0 && !keeps_logits)
                batcher.decode(session.id(), token, wait);
            break;
        }
        run.push_back(token = chosen);
        if (holds(stop, token))
            break;
    }
    return run;
}

// Passes that were started before the end was seen run for nothing: their rows lie behind the session's last one, where
// the next pass overwrites them. At most kLinksInFlight - 1.
GreedyRun Engine::State::greedy_by_chain(Session &session, int32_t token, int n, std::span<const int32_t> stop, const Wait &wait) {
    batcher.leave(session.id());
    auto permit = scheduler.acquire(Work::decode, session.id(), wait);
    Stopwatch watch(decode_ns);
    std::array<Row, kMostLinks> rows;
    const auto position = static_cast<int32_t>(session.position());
    for (int i = 0; i < n; ++i)
        rows[static_cast<size_t>(i)] = {&session.kv(), token, position + i};
    const std::span<const Row> chain = std::span(rows).first(static_cast<size_t>(n));
    const int32_t only = 0;
    session.will_write(static_cast<uint32_t>(n));

    GreedyRun run;
    std::vector<int32_t> fed; // tokens of the rows that count
    int32_t next = token;
    size_t committed = 0, done = 0;
    bool ends = false, has_logits = true;
    std::exception_ptr interrupted; // Ctrl-C: kept until the device is at rest
    const auto look_around = [&] {
        const SchedulerStats stats = scheduler.stats();
        ends = ends || is_over(wait) || stats.waiting_decodes + stats.waiting_prefills > 0;
        try {
            if (wait.poll && !interrupted)
                wait.poll();
        } catch (...) {
            interrupted = std::current_exception();
            ends = true;
        }
    };
    while (true) {
        for (; !ends && committed < chain.size() && committed < done + kLinksInFlight; ++committed) {
            forward_or_latch({chain, {&only, 1}, {}, PassKind::decode, committed});
            look_around();
        }
        if (done == committed)
            break;
        const int32_t chosen = or_latch([&] { return device->wait_link(Clock::now() + pass_limit); });
        ++done;
        if (next < 0)
            continue; // one that ran for nothing
        const bool stuck = chosen < 0;
        if (!stuck || done == 1)
            fed.push_back(next);
        if (!stuck)
            run.push_back(chosen);
        next = stuck || holds(stop, chosen) ? -1 : chosen;
        has_logits = !stuck || done == 1;
        ends = ends || next < 0;
    }
    session.install(fed, has_logits ? copy_logits(fed.size() - 1) : nullptr, Work::decode);
    decode_tokens += fed.size();
    if (interrupted)
        std::rethrow_exception(interrupted);
    return run;
}

} // namespace muser
