// Which sequences are in their decode phase, so that the rendezvous knows whom to wait for, and how often
// in a row each one let a window pass. The caller (the batcher) holds the lock.
#pragma once

#include <algorithm>
#include <vector>

#include "sched/batcher.h"

namespace muser {

class Attendance {
  public:
    void enter(SequenceId sequence) {
        const auto member = find(sequence);
        if (member == members_.end())
            members_.push_back({sequence, 0});
        else
            member->misses = 0;
    }

    void leave(SequenceId sequence) {
        if (const auto member = find(sequence); member != members_.end())
            members_.erase(member);
    }

    template <class Arrived> bool all(Arrived &&arrived) const {
        return std::all_of(members_.begin(), members_.end(), [&](const Member &m) { return arrived(m.sequence); });
    }

    // A window has passed: who did not arrive has missed it, and is forgotten after a few in a row.
    template <class Arrived> void window_passed(Arrived &&arrived) {
        std::erase_if(members_, [&](Member &m) { return !arrived(m.sequence) && ++m.misses >= kMissesUntilForgotten; });
    }

    int size() const { return static_cast<int>(members_.size()); }

  private:
    struct Member {
        SequenceId sequence;
        int misses; // windows in a row
    };

    std::vector<Member>::iterator find(SequenceId sequence) {
        return std::find_if(members_.begin(), members_.end(), [&](const Member &m) { return m.sequence == sequence; });
    }

    std::vector<Member> members_;
};

} // namespace muser
