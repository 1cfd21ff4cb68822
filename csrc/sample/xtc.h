// XTC, "exclude top choices": with some probability all tokens of at least the threshold go but the least likely of
// them, so that the model says something less obvious that it still finds likely.
//
//   one number u a token of the stream `xtc`; it acts if u / 2^53 < xtc_probability
//   of the candidates with weight >= xtc_threshold * total, all but the last in rank are removed
#pragma once

#include "sample/candidates.h"
#include "sample/random_stream.h"

namespace muser {

void exclude_top_choices(Candidates &set, double probability, double threshold, RandomStream &stream);

} // namespace muser
