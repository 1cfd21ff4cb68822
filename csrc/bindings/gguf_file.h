// What a Python GgufFile holds: one pointer to the immutable model, so that views and engines may share it.
#pragma once

#include <memory>

#include "gguf/file.h"

namespace muser::bindings {

struct GgufFile {
    std::shared_ptr<const gguf::Model> model;
};

} // namespace muser::bindings
