// A session at rest as bytes, and back. The same on every device and at every CPU level; little-endian, as every
// platform of this library is:
//   uint32  version, position, high_water, prefilled, n_planes, vocab (0: no logits)
//   n_planes times uint32 first position held, uint32 bytes of a row
//   int32 tokens [position]; float32 logits [vocab]
//   the rows of each plane: KvStore::read_rows of [first position held, position)
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "session/session.h"

namespace muser {

inline constexpr uint32_t kSnapshotVersion = 1;

uint64_t plane_row_bytes(const PlaneSpec &plane); // of one position, keys and values

std::vector<std::byte> take_snapshot(Session &session, std::span<const PlaneSpec> planes);

// Checks everything before it changes anything. Throws Error{parameter "snapshot"}: another version or shape, a size
// that does not agree with the counts, a token outside 0..vocab - 1, more than `context` rows.
void install_snapshot(Session &session, std::span<const PlaneSpec> planes, uint32_t vocab, uint32_t context,
                      std::span<const std::byte> bytes);

} // namespace muser
