// The one error type of the C++ layers: a code, a sentence for people, and named fields.
// The bindings map a code to a Python exception class and its fields to attributes of it.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace muser {

enum class ErrorCode {
    model_format,       // the file breaks the GGUF format; fields: path, offset
    unsupported_model,  // a valid file this build cannot run; fields: path
    unsupported_device, // the asked device does not exist here
    out_of_memory,      // fields: needed, available (bytes)
    context_full,       // fields: position, capacity
    overloaded,         // fields: waiting, limit
    timeout,            // a deadline passed while waiting
    unhealthy,          // the model latched an uncertain device state; fields: cause
    device,             // the device failed a pass
    cancelled,          // the session was cancelled
    closed,             // used after close()
    forked,             // used in a forked child; fields: pid
    busy,               // one session driven by two callers at once
    parameter,          // an argument out of its range; fields: parameter, value
    io,                 // the operating system refused; fields: path, filename (the same), errno, strerror
    logits,             // the model computed logits that cannot be sampled; fields: path, index
    internal,           // a bug of ours
};

class Error : public std::exception {
  public:
    using Value = std::variant<int64_t, std::string>;
    using Field = std::pair<std::string, Value>;

    Error(ErrorCode code, std::string message, std::vector<Field> fields = {})
        : code_(code), message_(std::move(message)), fields_(std::move(fields)) {}

    ErrorCode code() const noexcept { return code_; }
    const char *what() const noexcept override { return message_.c_str(); }
    const std::string &message() const noexcept { return message_; }
    const std::vector<Field> &fields() const noexcept { return fields_; }

  private:
    ErrorCode code_;
    std::string message_;
    std::vector<Field> fields_;
};

// "x must be in 1..4, not 9": the message of every refused argument names it and its value.
inline Error parameter_error(std::string_view parameter, std::string_view rule, int64_t value) {
    std::string text;
    text.append(parameter).append(" ").append(rule).append(", not ").append(std::to_string(value));
    return Error(ErrorCode::parameter, std::move(text), {{"parameter", std::string(parameter)}, {"value", value}});
}

// Of every call after close(), and of every wait that it ended.
inline Error closed_error() { return Error(ErrorCode::closed, "the model is closed"); }

} // namespace muser
