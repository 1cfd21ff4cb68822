// A mask of allowed tokens as the sampling calls take it: uint32 [ceil(vocab / 32)], or None for all of them.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>

#include "bindings/bindings.h"
#include "sample/sampler.h"

namespace muser::bindings {

using TokenMask = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline AllowedTokens words_of(const std::optional<TokenMask> &mask) {
    return mask ? AllowedTokens({mask->data(), mask->size()}) : std::nullopt;
}

} // namespace muser::bindings
