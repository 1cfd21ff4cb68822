// From the residuals of a text's rows to one vector: the model's final norm, then pooling. On the host and in float64,
// row by row, so that neither the chunking nor the device's threads can be seen in the sum.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace muser {

enum class Pooling { mean, last, cls }; // of all rows, the last row, the first row

class HiddenPool {
  public:
    // norm: the weight of the final RMS norm, [d_model]; must outlive the pool.
    HiddenPool(Pooling pooling, std::span<const float> norm, float eps);
    void add(std::span<const float> residuals); // [rows, d_model], in order
    std::vector<float> result() const;          // [d_model]; after at least one row

  private:
    void add_row(std::span<const float> residual, bool replace);

    Pooling pooling_;
    std::span<const float> norm_;
    double eps_;
    std::vector<double> sum_;
    size_t rows_ = 0;
};

} // namespace muser
