// libFuzzer target: any bytes are a parsed part or a muser::Error, never anything else. Everything that was
// parsed is touched. Build with clang: cmake -DMUSER_FUZZ=ON, then: gguf_fuzz CORPUS -max_len=65536
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "gguf/dequant.h"
#include "gguf/lookup.h"
#include "gguf/part.h"
#include "gguf/split.h"

using namespace muser;

namespace {

volatile uint64_t sink;

void touch(std::string_view text) {
    for (const char c : text)
        sink = sink + static_cast<uint8_t>(c);
}
void touch(uint64_t value) { sink = sink + value; }
void touch(int64_t value) { sink = sink + static_cast<uint64_t>(value); }
void touch(double value) { sink = sink + (value > 0); }
void touch(bool value) { sink = sink + value; }

void touch(const gguf::Array &array) {
    array.each([](const auto &element) { touch(element); });
}

void touch(const gguf::Tensor &tensor) {
    touch(tensor.name);
    constexpr uint64_t kMost = 1 << 16; // enough to see every byte of a small file
    if (tensor.rows() > kMost || tensor.cols() > kMost || tensor.rows() * tensor.cols() > kMost)
        return;
    std::vector<float> values(tensor.rows() * tensor.cols());
    gguf::dequantize(tensor.type, tensor.data.data(), values.data(), values.size());
    for (const float value : values)
        touch(static_cast<double>(value));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    // A copy of exactly this size, so that the sanitizer sees a read one byte past the end.
    const std::vector<uint8_t> copy(data, data + size);
    const std::string path = "fuzz-00001-of-00002.gguf";
    try {
        const gguf::Part part = gguf::parse_part(std::as_bytes(std::span(copy)), path, nullptr);
        for (const gguf::Entry &entry : part.metadata)
            std::visit([](const auto &value) { touch(value); }, entry.value);
        for (const gguf::Tensor &tensor : part.tensors)
            touch(tensor);
        if (const uint32_t count = gguf::split_count(part, path); count > 1)
            gguf::check_split_part(part, gguf::split_path(path, 1, count), 1, count);
    } catch (const Error &error) {
        touch(error.message());
    }
    return 0;
}
