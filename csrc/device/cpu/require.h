// Contracts between the layers: what is broken here is the calling code, never input.
#pragma once

#include <string>

#include "core/error.h"

namespace muser::cpu {

inline void require(bool holds, const char *what) {
    if (!holds)
        throw Error(ErrorCode::internal, std::string("CPU device: ") + what);
}

} // namespace muser::cpu
