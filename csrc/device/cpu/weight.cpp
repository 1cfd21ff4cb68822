// Loading a weight: dequantize a vector, pack a matrix on all threads, or remember where the file has it.
#include "device/cpu/weight.h"

#include <atomic>

#include "core/error.h"
#include "device/cpu/float_mode.h"
#include "gguf/dequant.h"

namespace muser::cpu {

namespace {

// Enough tiles a turn that the shared counter costs nothing, few enough that threads end together.
constexpr uint64_t kTilesPerTurn = 4;

void pack_on_all_threads(const TensorView &tensor, int lanes, std::byte *to, uint64_t tiles, ThreadPool &pool) {
    std::atomic<uint64_t> next{0};
    pool.run([&](int) {
        const DefaultFloatMode float_mode;
        for (uint64_t first; (first = next.fetch_add(kTilesPerTurn, std::memory_order_relaxed)) < tiles;)
            pack_tiles(tensor, lanes, to, first, std::min(first + kTilesPerTurn, tiles));
    });
}

} // namespace

uint64_t CpuWeight::bytes(const TensorView &tensor, WeightUse use, int lanes) {
    switch (use) {
    case WeightUse::vector:
        return tensor.rows * tensor.cols * sizeof(float);
    case WeightUse::lookup:
        return 0;
    default:
        return round_to_pages(packed_bytes(tensor.type, tensor.rows, tensor.cols, lanes));
    }
}

CpuWeight::CpuWeight(const TensorView &tensor, WeightUse use, int lanes, ThreadPool &pool) : use_(use), type_(tensor.type) {
    const DefaultFloatMode float_mode;
    rows = tensor.rows;
    cols = tensor.cols;
    if (use == WeightUse::vector) {
        vector_ = std::make_unique_for_overwrite<float[]>(rows * cols);
        gguf::dequantize(type_, tensor.data.data(), vector_.get(), rows * cols);
    } else if (use == WeightUse::lookup) {
        file_ = tensor.data;
    } else {
        memory_ = PageBuffer(packed_bytes(type_, rows, cols, lanes), PageBuffer::Pages::large_where_possible);
        matrix_.type = type_;
        matrix_.rows = rows;
        matrix_.cols = cols;
        matrix_.lanes = lanes;
        matrix_.data = memory_.data();
        matrix_.tile_bytes = packed_bytes(type_, static_cast<uint64_t>(lanes), cols, lanes);
        pack_on_all_threads(tensor, lanes, memory_.data(), matrix_.tiles(), pool);
    }
}

const float *CpuWeight::vector() const {
    if (use_ != WeightUse::vector)
        throw Error(ErrorCode::internal, "a weight loaded as a matrix is used as a vector");
    return vector_.get();
}

const PackedMatrix &CpuWeight::matrix() const {
    if (!matrix_.data)
        throw Error(ErrorCode::internal, "a weight that is not a matrix is multiplied");
    return matrix_;
}

void CpuWeight::row(uint64_t index, float *out) const {
    if (use_ == WeightUse::lookup) {
        const size_t row_bytes = file_.size() / rows;
        gguf::dequantize(type_, file_.data() + index * row_bytes, out, cols);
    } else {
        unpack_row(matrix_, index, out);
    }
}

} // namespace muser::cpu
