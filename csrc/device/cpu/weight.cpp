#include "device/cpu/weight.h"

#include "core/error.h"
#include "gguf/dequant.h"

namespace muser::cpu {

CpuWeight::CpuWeight(const TensorView &tensor, std::unique_ptr<float[]> vector) : type_(tensor.type), vector_(std::move(vector)) {
    rows = tensor.rows;
    cols = tensor.cols;
}

CpuWeight::CpuWeight(const TensorView &lookup) : type_(lookup.type), file_(lookup.data) {
    rows = lookup.rows;
    cols = lookup.cols;
}

CpuWeight::CpuWeight(const PackedMatrix &matrix, std::shared_ptr<const PageBuffer> memory)
    : type_(matrix.type), matrix_(matrix), memory_(std::move(memory)) {
    rows = matrix.rows;
    cols = matrix.cols;
}

const float *CpuWeight::vector() const {
    if (!vector_)
        throw Error(ErrorCode::internal, "a weight loaded as a matrix is used as a vector");
    return vector_.get();
}

const PackedMatrix &CpuWeight::matrix() const {
    if (!matrix_.data)
        throw Error(ErrorCode::internal, "a weight that is not a matrix is multiplied");
    return matrix_;
}

void CpuWeight::row(uint64_t index, float *out) const {
    if (matrix_.data)
        return unpack_row(matrix_, index, out);
    const size_t row_bytes = file_.size() / rows;
    gguf::dequantize(type_, file_.data() + index * row_bytes, out, cols);
}

} // namespace muser::cpu
