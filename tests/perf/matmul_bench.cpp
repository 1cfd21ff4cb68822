// Speed of the matrix products of one level, next to what this machine can do: streaming reads for decode
// (n = 1, 2, 4 rows over a matrix larger than the cache), arithmetic peaks for prefill (n = 512).
// Best of several repeats, one thread. Usage: matmul_bench [--level NAME] [--types Q4_0,...] [--cols N]
// [--mib N]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "../cpp/matmul_cases.h"
#include "machine_peaks.h"

using namespace muser;
using namespace muser::cpu;
using namespace muser::cpu::testing;

namespace {

struct Options {
    Level level = choose_level();
    std::string types = "all";
    uint64_t cols = 2048;
    double mib = 64;
};

class Case {
  public:
    Case(BlockType type, uint64_t rows, uint64_t cols, const MatmulKernels &kernels)
        : kernels_(kernels), rng_(1), source_(random_matrix(type, 64, cols, rng_)),
          packed_(packed_bytes(type, rows, cols, kernels.lanes)), out_(512 * rows) {
        matrix_ = {type,          rows, cols, kernels.lanes, packed_bytes(type, 1, cols, kernels.lanes),
                   packed_.data()};
        file_.resize(source_.data.size() / 64 * rows); // the same 64 rows over and over
        for (size_t at = 0; at < file_.size(); at += source_.data.size())
            std::memcpy(file_.data() + at, source_.data.data(),
                        std::min(source_.data.size(), file_.size() - at));
        pack();
        values_ = random_rows(512, cols, rng_);
        const size_t bytes = quantized_row_bytes(cols);
        quants_ = std::make_unique<Aligned>(512 * bytes);
        if (needs_quantized_rows(type))
            for (int r = 0; r < 512; ++r)
                kernels.quantize_row(values_.data() + r * cols, cols, quants_->data() + r * bytes);
    }
    void pack() {
        const TensorView view{"weight", matrix_.type, matrix_.rows, matrix_.cols, file_};
        pack_tiles(view, kernels_.lanes, packed_.data(), 0, matrix_.tiles());
    }
    void product(int n, uint64_t tiles) {
        const ActivationRows in{values_.data(), matrix_.cols, quants_->data()};
        kernels_.matmul(matrix_, 0, tiles, in, n, out_.data(), matrix_.rows, nullptr);
    }
    const PackedMatrix &matrix() const { return matrix_; }

  private:
    const MatmulKernels &kernels_;
    std::mt19937 rng_;
    Matrix source_;
    LargePages packed_;
    PackedMatrix matrix_;
    std::vector<float> out_, values_;
    std::vector<std::byte> file_;
    std::unique_ptr<Aligned> quants_;
};

void run_type(BlockType type, const Options &options) {
    const MatmulKernels &kernels = matmul_kernels(options.level);
    const double row_bytes =
        static_cast<double>(packed_bytes(type, 1, options.cols, kernels.lanes)) / kernels.lanes;
    const auto rows = static_cast<uint64_t>(options.mib * 1048576 / row_bytes) / 32 * 32;
    Case c(type, rows, options.cols, kernels);
    const double bytes = row_bytes * static_cast<double>(rows);
    const double pack = best_seconds(3, [&] { c.pack(); });
    std::printf("%-7s %7.2f", std::string(gguf::traits(type).name).c_str(), bytes / pack / 1e9);
    for (const int n : {1, 2, 3, 4}) {
        const double seconds = best_seconds(7, [&] { c.product(n, c.matrix().tiles()); });
        std::printf(" %7.2f", bytes / seconds / 1e9);
    }
    const uint64_t few = std::min<uint64_t>(c.matrix().tiles(), 512 / kernels.lanes);
    for (const int n : {1, 4, 16, 64, 512}) { // in cache: arithmetic
        const int calls = std::max(1, 128 / n);
        const double seconds = best_seconds(7, [&] {
            for (int i = 0; i < calls; ++i)
                c.product(n, few);
        });
        const double macs = static_cast<double>(n) * calls * few * kernels.lanes * options.cols;
        std::printf(" %7.1f", macs / seconds / 1e9);
    }
    std::printf("\n");
    std::fflush(stdout);
}

Options parse(int argc, char **argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string key = argv[i], value = argv[i + 1];
        if (key == "--types")
            options.types = value;
        else if (key == "--cols")
            options.cols = std::strtoull(value.c_str(), nullptr, 10);
        else if (key == "--mib")
            options.mib = std::strtod(value.c_str(), nullptr);
        else if (key == "--level")
            for (const Level level : available_levels())
                if (value == level_name(level))
                    options.level = level;
    }
    return options;
}

} // namespace

int main(int argc, char **argv) {
    const Options options = parse(argc, argv);
    std::printf("%s\nlevel %s, one thread, cols %llu, matrix %.0f MiB\n", cpu_features().c_str(),
                std::string(level_name(options.level)).c_str(), static_cast<unsigned long long>(options.cols),
                options.mib);
    std::printf("streaming read %.1f GB/s; arithmetic of portable loops: float fma %.1f GMAC/s, int8 dot "
                "%.1f GMAC/s\n",
                streaming_read_gb(options.mib), float_peak_gmac(), int8_peak_gmac());
    std::printf("%-7s %7s %31s %39s\n", "", "pack", "GB/s of weights at n =", "GMAC/s in cache at n =");
    std::printf("%-7s %7s %7d %7d %7d %7d %7d %7d %7d %7d %7d\n", "type", "GB/s", 1, 2, 3, 4, 1, 4, 16, 64,
                512);
    for (const BlockType type : kTypes) {
        const std::string name(gguf::traits(type).name);
        if (options.types == "all" || ("," + options.types + ",").find("," + name + ",") != std::string::npos)
            run_type(type, options);
    }
}
