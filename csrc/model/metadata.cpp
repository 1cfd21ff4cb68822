#include "model/metadata.h"

#include <cmath>

namespace muser {

const std::string &ArchKeys::full(const std::string &key) { return *known_.insert(prefix_ + key).first; }

std::optional<uint64_t> ArchKeys::uint(const std::string &key) { return file_.get_uint(full(key)); }

std::optional<float> ArchKeys::real(const std::string &key) {
    auto value = file_.get_float(full(key));
    return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

std::optional<std::string> ArchKeys::text(const std::string &key) {
    auto value = file_.get_string(full(key));
    return value ? std::optional<std::string>(std::string(*value)) : std::nullopt;
}

const gguf::Entry *ArchKeys::entry(const std::string &key) { return file_.find(full(key)); }

uint32_t ArchKeys::required_uint(const std::string &key, uint32_t most) {
    const gguf::Entry *found = entry(key);
    if (!found)
        unsupported("the key " + prefix_ + key + " is missing");
    if (std::holds_alternative<gguf::Array>(found->value))
        unsupported("the key " + prefix_ + key + " differs by layer (an array)");
    const uint64_t value = *uint(key);
    if (value < 1 || value > most)
        unsupported("the key " + prefix_ + key + " is " + std::to_string(value) + "; supported: 1.." +
                    std::to_string(most));
    return static_cast<uint32_t>(value);
}

float ArchKeys::required_positive(const std::string &key) {
    if (!entry(key))
        unsupported("the key " + prefix_ + key + " is missing");
    return positive_or(key, 1.0f);
}

float ArchKeys::positive_or(const std::string &key, float fallback) {
    const std::optional<float> value = real(key);
    if (value && !(std::isfinite(*value) && *value > 0))
        unsupported("the key " + prefix_ + key + " is " + std::to_string(*value) + ", not a positive number");
    return value.value_or(fallback);
}

void ArchKeys::harmless(std::initializer_list<const char *> keys) {
    for (const char *key : keys)
        full(key);
}

void ArchKeys::refuse_unknown() const {
    for (const gguf::Entry &entry : file_.metadata())
        if (entry.key.starts_with(prefix_) && !known_.contains(std::string(entry.key)))
            unsupported("the key " + std::string(entry.key) + " is not known for this architecture");
}

void ArchKeys::unsupported(const std::string &what) const {
    throw Error(ErrorCode::unsupported_model, file_.path() + ": " + what, {{"path", file_.path()}});
}

} // namespace muser
