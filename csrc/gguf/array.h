// An array of the metadata, read where it lies in the file: a vocabulary of 262k tokens costs nothing until somebody
// asks for it. Its elements were checked when the file was opened. Lengths are compared again when they are read: a
// file that somebody has written to in between must not lead out of the mapping.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "gguf/value_type.h"

namespace muser::gguf {

struct Array {
    uint32_t element_type = 0; // GGUF value type id
    uint64_t count = 0;
    std::span<const std::byte> bytes; // of all elements
    std::vector<Array> arrays;        // the elements that are arrays themselves: rare and few

    // f(element) for the first `limit` elements, widened as in Value: uint64_t, int64_t, double, bool,
    // std::string_view or Array. f takes any of them.
    template <class F> void each(F &&f, uint64_t limit = UINT64_MAX) const {
        const uint64_t n = std::min(count, limit);
        switch (element_type) {
        case kUint8: return numbers<uint8_t, uint64_t>(n, f);
        case kUint16: return numbers<uint16_t, uint64_t>(n, f);
        case kUint32: return numbers<uint32_t, uint64_t>(n, f);
        case kUint64: return numbers<uint64_t, uint64_t>(n, f);
        case kInt8: return numbers<int8_t, int64_t>(n, f);
        case kInt16: return numbers<int16_t, int64_t>(n, f);
        case kInt32: return numbers<int32_t, int64_t>(n, f);
        case kInt64: return numbers<int64_t, int64_t>(n, f);
        case kFloat32: return numbers<float, double>(n, f);
        case kFloat64: return numbers<double, double>(n, f);
        case kBool: return numbers<uint8_t, bool>(n, f);
        case kString: return strings(n, f);
        case kArray: std::for_each_n(arrays.begin(), n, f);
        }
    }

  private:
    static std::span<const std::byte> take(std::span<const std::byte> &left, uint64_t n) {
        if (n > left.size())
            throw Error(ErrorCode::model_format, "the model file was written to while it was in use");
        const auto taken = left.first(n);
        left = left.subspan(n);
        return taken;
    }

    template <class T> static T take_value(std::span<const std::byte> &left) {
        T value;
        std::memcpy(&value, take(left, sizeof value).data(), sizeof value);
        return value;
    }

    template <class Stored, class Wide, class F> void numbers(uint64_t n, F &f) const {
        for (auto left = bytes; n > 0; --n)
            f(static_cast<Wide>(take_value<Stored>(left)));
    }

    template <class F> void strings(uint64_t n, F &f) const {
        for (auto left = bytes; n > 0; --n) {
            const auto text = take(left, take_value<uint64_t>(left));
            f(std::string_view(reinterpret_cast<const char *>(text.data()), text.size()));
        }
    }
};

} // namespace muser::gguf
