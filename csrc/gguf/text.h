// Bytes of a file as text: UTF-8 validation, and quoting for error messages.
#pragma once

#include <string>
#include <string_view>

namespace muser::gguf {

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes);

// 'name' for an error message: at most 80 bytes of it, control characters and bytes that are not UTF-8
// written as \xNN, so that a hostile name can neither break the message nor drive a terminal.
std::string quoted(std::string_view bytes);

} // namespace muser::gguf
