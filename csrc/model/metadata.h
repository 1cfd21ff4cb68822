// Checked access to one architecture's GGUF keys, and the record of which keys were understood:
// a key under "<architecture>." that nobody asked for may change the mathematics, so it is refused.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "gguf/file.h"

namespace muser {

class ArchKeys {
  public:
    ArchKeys(const gguf::Model &file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

    // Empty when absent. Throws Error{model_format} for another type.
    std::optional<uint64_t> uint(const std::string &key);
    std::optional<float> real(const std::string &key);
    std::optional<std::string> text(const std::string &key);
    const gguf::Entry *entry(const std::string &key);

    // Throws Error{unsupported_model} when absent, zero or above `most`.
    uint32_t required_uint(const std::string &key, uint32_t most);
    // Throws Error{unsupported_model} when absent, not finite or not positive.
    float required_positive(const std::string &key);
    // The same check for a value that may be absent.
    float positive_or(const std::string &key, float fallback);

    void harmless(std::initializer_list<const char *> keys); // known, and without effect on text generation
    void refuse_unknown() const;                             // Error{unsupported_model} names the first unknown key

    [[noreturn]] void unsupported(const std::string &what) const;
    const gguf::Model &file() const { return file_; }

  private:
    const std::string &full(const std::string &key); // records the key as known
    const gguf::Model &file_;
    std::string prefix_;
    std::set<std::string> known_;
};

} // namespace muser
