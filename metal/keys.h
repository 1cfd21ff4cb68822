// Which keys a row sees, and how they are cut: into blocks of 128 aligned to absolute position, and the blocks into
// splits that different threadgroups take.
#pragma once

#include "common.h"

constant uint kBlockKeys = 128;
constant float kHidden = -3.0e38f; // the score of a key that is not seen; finite, as fast math wants it

struct KeyRange { // first .. last
    uint first;
    uint last;
};

METAL_FUNC KeyRange visible_keys(uint position, uint window) {
    KeyRange range;
    range.first = window == 0 || position < window ? 0 : position - window + 1;
    range.last = position;
    return range;
}

// The blocks of 128 keys that split s of a tile walks: [first, end), empty for a split that it does not have.
struct BlockRange {
    uint first;
    uint end;
};
METAL_FUNC BlockRange blocks_of_split(KeyRange keys, uint split, uint max_splits) {
    const uint first = keys.first / kBlockKeys;
    const uint end = keys.last / kBlockKeys + 1;
    const uint each = (end - first + max_splits - 1) / max_splits;
    BlockRange range;
    range.first = min(first + split * each, end);
    range.end = min(range.first + each, end);
    return range;
}
