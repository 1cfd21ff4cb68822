// How a session comes by rows that no pass of its own computed: from its slot, from the prefix store, from another
// session, from the staging session.
#include <algorithm>

#include "session/engine_state.h"
#include "session/snapshot.h"

namespace muser {

namespace {

// What the rows of a session take once they were written.
uint64_t committed_bytes(std::span<const PlaneSpec> planes, uint32_t high_water) {
    uint64_t bytes = 0;
    for (const PlaneSpec &plane : planes)
        bytes += std::min(high_water, plane.rows) * plane_row_bytes(plane);
    return bytes;
}

// The rows of the first `position` positions, of planes in which `limit` rows were ever written. Rings that went around
// keep them anywhere; otherwise position p is in row p.
void copy_positions(const KvStore &from, KvStore &to, uint32_t position, const RewindLimit &limit) {
    to.copy(from, limit.lowest() > 0 ? limit.high_water() : position);
}

} // namespace

size_t Engine::State::reuse_prefix(Session &session, std::span<const int32_t> tokens) {
    if (session.position() != 0)
        return 0;
    size_t n = session.reusable(tokens, prefixes.prefilled_only());
    const auto keep = [&](Retained old) {
        const uint64_t bytes = committed_bytes(planes, old.limit.high_water());
        if (old.tokens.size() >= kWorthKeeping)
            prefixes.put(std::move(old), bytes);
    };
    if (std::optional<Retained> found = prefixes.take(tokens, n)) {
        n = found->reusable(tokens, prefixes.prefilled_only());
        keep(session.exchange(std::move(*found)));
        session.reuse(n);
    } else if (session.retained() >= n + kWorthKeeping && prefixes.has_room_for(committed_bytes(planes, session.contents().high_water))) {
        // Another conversation's rows are about to be overwritten: it keeps its planes, this one gets new ones, and
        // a copy of what both share.
        Retained old = session.exchange({device->make_kv(planes), {}, RewindLimit(hparams, planes), 0});
        if (n > 0) {
            const auto shared = static_cast<uint32_t>(n);
            copy_positions(*old.kv, session.kv(), shared, old.limit);
            session.restore({{tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)}, nullptr, old.limit.high_water(), std::min(old.prefilled, shared)});
        }
        keep(std::move(old));
    } else if (n > 0) {
        session.reuse(n);
    }
    reused_tokens += n;
    return n;
}

void Engine::State::copy_rows(Session &from, Session &to) {
    Session::Contents contents = from.contents();
    to.forget(); // so that a failed copy leaves an empty session
    to.kv().copy(from.kv(), contents.high_water);
    to.restore(std::move(contents));
}

void Engine::State::shift(Session &session, std::span<const int32_t> tokens, const Wait &wait) {
    std::unique_lock builder(staging_mutex, std::defer_lock);
    while (!builder.try_lock_for(std::chrono::milliseconds(5)))
        wait.check();
    const std::unique_ptr<Session, void (*)(Session *)> clean(staging.get(), [](Session *s) { s->forget(); });
    staging->forget();
    while (!tokens.empty()) {
        wait.check();
        tokens = tokens.subspan(run_chunk(*staging, tokens, wait, Harvest::last_logits).tokens.size());
    }
    session.swap(*staging);
}

} // namespace muser
