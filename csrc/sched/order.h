// The turn order, the one rule that both levels share: ascending ids, cyclic, after whoever went last.
#pragma once

#include <cstdint>
#include <limits>

#include "sched/scheduler.h"

namespace muser {

// Who went last before anybody went: the lowest id is next.
inline constexpr SequenceId kNobodyYet = std::numeric_limits<SequenceId>::max();

// How far `id` is from its turn: 0 is next, and `last` itself is the farthest. Smaller goes first.
constexpr uint32_t turn_distance(SequenceId last, SequenceId id) {
    return static_cast<uint32_t>(id) - static_cast<uint32_t>(last) - 1; // unsigned: wraps round the circle
}

} // namespace muser
