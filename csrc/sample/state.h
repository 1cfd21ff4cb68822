// A sampler's state as bytes, for session files: same file, same continuation. Little-endian, checked from end to end.
//
//   8   "muserSS" and a version byte, 1
//   8   fingerprint of the parameters, seed included
//   4 * (624 + 1) * 4   the streams distribution, xtc, mirostat, adaptive: words, then the index of the next
//   3 * 8   mu, weighted_sum, total_weight (float64)
//   8   number of tokens, then 4 a token: the history as far as the parameters look back
//   8   FNV-1a of everything before
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/sampler.h"

namespace muser {

std::vector<uint8_t> save_state(const Sampler &sampler);

// Error{parameter "state"} for bytes that are no state, are damaged, are of another version, or of a sampler with
// other parameters; the sampler is unchanged then.
void restore_state(Sampler &sampler, std::span<const uint8_t> bytes);

} // namespace muser
