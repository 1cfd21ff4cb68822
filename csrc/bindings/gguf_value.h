// GGUF metadata values as Python objects.
#pragma once

#include "bindings/bindings.h"
#include "gguf/file.h"

namespace muser::bindings {

// str when the bytes are UTF-8, else bytes.
nb::object to_python(std::string_view bytes);

// int, float, bool, str, bytes, or a (nested) list of them. Of an array at most `limit` elements.
nb::object to_python(const gguf::Value &value, size_t limit = SIZE_MAX);

} // namespace muser::bindings
