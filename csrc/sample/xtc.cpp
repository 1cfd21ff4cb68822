#include "sample/xtc.h"

namespace muser {

void exclude_top_choices(Candidates &set, double probability, double threshold, RandomStream &stream) {
    if (!(double(stream.next53()) * 0x1p-53 < probability))
        return;
    set.list();
    const double bound = threshold * double(set.weigh());
    const Candidate *last = nullptr;
    for (const Candidate &c : set.list())
        if (double(c.weight) >= bound && (last == nullptr || ranks_before(*last, c)))
            last = &c;
    if (last == nullptr)
        return;
    const Candidate kept = *last;
    set.keep_if([&](const Candidate &c) { return !(double(c.weight) >= bound && ranks_before(c, kept)); });
}

} // namespace muser
