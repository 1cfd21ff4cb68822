// Contracts between the layers: what is broken here is the calling code, never input.
#pragma once

#include <string>

#include "core/error.h"

namespace muser::metal {

inline void require(bool holds, const char *what) {
    if (!holds)
        throw Error(ErrorCode::internal, std::string("Metal device: ") + what);
}

} // namespace muser::metal
