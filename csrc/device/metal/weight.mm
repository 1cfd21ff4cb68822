// Borrowing pages, and copying what cannot be borrowed.
#import "device/metal/weight.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "device/metal/require.h"
#include "gguf/dequant.h"

namespace muser::metal {

namespace {

constexpr uintptr_t kPage = 16384;      // of every Apple chip
constexpr uintptr_t kAlignment = 16;    // of the widest load of a kernel
constexpr uint64_t kRun = 16;           // values that a lane unpacks at once

uintptr_t page_down(uintptr_t at) { return at / kPage * kPage; }
uintptr_t page_up(uintptr_t at) { return page_down(at + kPage - 1); }

} // namespace

const MetalWeight &matrix_of(const Weight &weight) {
    const MetalWeight &w = metal_weight(weight);
    require(w.use != WeightUse::vector, "a weight loaded as a vector is multiplied");
    return w;
}

const Place &vector_of(const Weight &weight) {
    const MetalWeight &w = metal_weight(weight);
    require(w.use == WeightUse::vector, "a weight loaded as a matrix is used as a vector");
    return *w.place;
}

void FileBuffers::add(std::span<const std::byte> bytes, std::shared_ptr<Place> place) {
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    parts_.push_back({begin, begin + bytes.size(), std::move(place)});
}

void FileBuffers::make(size_t first, size_t last) {
    const uintptr_t begin = page_down(parts_[first].begin);
    const uintptr_t end = page_up(std::max_element(parts_.begin() + static_cast<ptrdiff_t>(first), parts_.begin() + static_cast<ptrdiff_t>(last),
                                                   [](const Part &a, const Part &b) { return a.end < b.end; })
                                      ->end);
    id<MTLBuffer> buffer = gpu_.borrow(reinterpret_cast<void *>(begin), end - begin);
    gpu_.keep_resident(buffer);
    for (size_t i = first; i < last; ++i)
        if (parts_[i].place)
            *parts_[i].place = {buffer, parts_[i].begin - begin};
}

void FileBuffers::seal() {
    if (parts_.empty())
        return;
    const uint64_t longest = gpu_.device().maxBufferLength / kPage * kPage;
    std::sort(parts_.begin(), parts_.end(), [](const Part &a, const Part &b) { return a.begin < b.begin; });
    for (size_t first = 0, last; first < parts_.size(); first = last) {
        uintptr_t end = page_up(parts_[first].end);
        for (last = first + 1; last < parts_.size(); ++last) {
            const Part &next = parts_[last];
            const uintptr_t new_end = std::max(end, page_up(next.end));
            // Pages between two parts might be of no file: only parts that share or touch pages go together.
            if (page_down(next.begin) > end || new_end - page_down(parts_[first].begin) > longest)
                break;
            end = new_end;
        }
        if (end - page_down(parts_[first].begin) > longest)
            throw Error(ErrorCode::out_of_memory, "a tensor is longer than Metal's longest buffer",
                        {{"needed", static_cast<int64_t>(end - page_down(parts_[first].begin))},
                         {"available", static_cast<int64_t>(longest)}});
        make(first, last);
    }
    gpu_.commit_residency();
    parts_.clear();
}

void WeightLoader::copy_vector(const TensorView &tensor, MetalWeight &weight) const {
    const uint64_t n = tensor.rows * tensor.cols;
    id<MTLBuffer> buffer = gpu_.shared(n * sizeof(float));
    gguf::dequantize(tensor.type, tensor.data.data(), static_cast<float *>(buffer.contents), n);
    *weight.place = {buffer, 0};
}

std::unique_ptr<MetalWeight> WeightLoader::load(const TensorView &tensor, WeightUse use) {
    auto weight = std::make_unique<MetalWeight>();
    weight->rows = tensor.rows;
    weight->cols = tensor.cols;
    weight->type = tensor.type;
    weight->use = use;
    weight->place = std::make_shared<Place>();
    if (use == WeightUse::vector) {
        copy_vector(tensor, *weight);
        files_.add(tensor.data, nullptr); // small, and between matrices: makes one run of pages of all
        return weight;
    }
    if (tensor.cols % kRun != 0)
        throw Error(ErrorCode::unsupported_model, std::string(tensor.name) + " has rows of " + std::to_string(tensor.cols) +
                                                      " values; the Metal device needs a multiple of 16");
    weight->row_bytes = static_cast<uint32_t>(tensor.data.size() / tensor.rows);
    if (reinterpret_cast<uintptr_t>(tensor.data.data()) % kAlignment == 0) {
        files_.add(tensor.data, weight->place);
    } else { // a file with a smaller general.alignment than the usual 32
        id<MTLBuffer> buffer = gpu_.shared(tensor.data.size());
        std::memcpy(buffer.contents, tensor.data.data(), tensor.data.size());
        *weight->place = {buffer, 0};
    }
    return weight;
}

} // namespace muser::metal
