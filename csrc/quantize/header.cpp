#include "quantize/header.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "gguf/value_type.h"

namespace muser::quantize {

namespace {

constexpr uint32_t kVersion = 3;
constexpr uint32_t kQuantizationVersion = 2; // of the block layouts; the only one in use since GGUF exists

class Bytes {
  public:
    template <class T> void number(T value) { append(&value, sizeof value); }
    void append(const void *data, size_t size) {
        const size_t at = bytes_.size();
        bytes_.resize(at + size);
        if (size > 0)
            std::memcpy(bytes_.data() + at, data, size);
    }
    void text(std::string_view text) {
        number<uint64_t>(text.size());
        append(text.data(), text.size());
    }
    void pad(uint64_t alignment) { bytes_.resize(padded(bytes_.size(), alignment)); }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

void write_array(Bytes &out, const gguf::Array &array) {
    out.number(array.element_type);
    out.number(array.count);
    out.append(array.bytes.data(), array.bytes.size()); // of nested arrays too: their bytes as they lie in the file
}

void write_value(Bytes &out, uint32_t type, const gguf::Value &value) {
    switch (type) {
    case gguf::kUint8: return out.number(static_cast<uint8_t>(std::get<uint64_t>(value)));
    case gguf::kUint16: return out.number(static_cast<uint16_t>(std::get<uint64_t>(value)));
    case gguf::kUint32: return out.number(static_cast<uint32_t>(std::get<uint64_t>(value)));
    case gguf::kUint64: return out.number(std::get<uint64_t>(value));
    case gguf::kInt8: return out.number(static_cast<int8_t>(std::get<int64_t>(value)));
    case gguf::kInt16: return out.number(static_cast<int16_t>(std::get<int64_t>(value)));
    case gguf::kInt32: return out.number(static_cast<int32_t>(std::get<int64_t>(value)));
    case gguf::kInt64: return out.number(std::get<int64_t>(value));
    case gguf::kFloat32: return out.number(static_cast<float>(std::get<double>(value)));
    case gguf::kFloat64: return out.number(std::get<double>(value));
    case gguf::kBool: return out.number(static_cast<uint8_t>(std::get<bool>(value)));
    case gguf::kString: return out.text(std::get<std::string_view>(value));
    case gguf::kArray: return write_array(out, std::get<gguf::Array>(value));
    }
}

void write_u32(Bytes &out, std::string_view key, uint32_t value) {
    out.text(key);
    out.number<uint32_t>(gguf::kUint32);
    out.number(value);
}

} // namespace

std::vector<std::byte> header_of(const gguf::Model &model, std::span<const Planned> tensors, uint32_t file_type) {
    const std::pair<std::string_view, uint32_t> set[] = {{"general.file_type", file_type},
                                                         {"general.quantization_version", kQuantizationVersion}};
    Bytes entries;
    uint64_t n_entries = 0;
    for (const gguf::Entry &entry : model.metadata()) {
        if (entry.key == "split.no" || entry.key == "split.count" || entry.key == "split.tensors.count")
            continue;
        ++n_entries;
        if (entry.key == set[0].first || entry.key == set[1].first) {
            write_u32(entries, entry.key, entry.key == set[0].first ? set[0].second : set[1].second);
            continue;
        }
        entries.text(entry.key);
        entries.number(entry.type);
        write_value(entries, entry.type, entry.value);
    }
    for (const auto &[key, value] : set)
        if (!model.find(key)) {
            ++n_entries;
            write_u32(entries, key, value);
        }

    Bytes out;
    out.append("GGUF", 4);
    out.number(kVersion);
    out.number<uint64_t>(tensors.size());
    out.number(n_entries);
    const std::vector<std::byte> written = entries.take();
    out.append(written.data(), written.size());
    uint64_t offset = 0;
    for (const Planned &tensor : tensors) {
        out.text(tensor.source->name);
        out.number(tensor.source->n_dims);
        for (uint32_t i = 0; i < tensor.source->n_dims; ++i)
            out.number(tensor.source->shape[i]);
        out.number(static_cast<uint32_t>(tensor.type));
        out.number(offset);
        offset += padded(tensor.bytes(), model.alignment());
    }
    out.pad(model.alignment());
    return out.take();
}

} // namespace muser::quantize
