// The kernel of kernels/norm.metal run without Python, so that the fibers can be tried under emulation of another
// processor. Linked with the runtime and with the translated kernel. Exit status 0: right, and a fault was noticed.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../runtime/launch.h"
#include "../runtime/memory.h"
#include "../runtime/reports.h"

extern "C" const msl::Kernel msl_kernels[];
extern "C" const msl::FunctionConstant msl_constants[];

namespace {

constexpr int width = 256, rows = 3;
struct NormArgs {
    int width;
    float epsilon;
};

int run(std::vector<float> &x, std::vector<float> &y, uint64_t y_bytes, uint32_t seed) {
    const bool weighted = false;
    const msl::ConstantValue value{0, 53, &weighted};
    NormArgs args{width, 1e-5f};
    auto *in = reinterpret_cast<unsigned char *>(x.data()), *out = reinterpret_cast<unsigned char *>(y.data());
    msl::Allocation in_memory(in, x.size() * 4), out_memory(out, y_bytes);
    msl::Launch launch{};
    launch.kernel = msl_kernels;
    launch.constants = msl_constants;
    launch.values = &value;
    launch.value_count = 1;
    launch.buffers[0] = {reinterpret_cast<unsigned char *>(&args), sizeof args, nullptr};
    launch.buffers[1] = {in, in_memory.bytes, &in_memory};
    launch.buffers[3] = {out, out_memory.bytes, &out_memory};
    launch.threadgroup_bytes[0] = 128;
    launch.grid = {rows, 1, 1};
    launch.group = {96, 1, 1};
    launch.options = {seed, 1, seed != 0, 0};
    return msl::dispatch(launch, nullptr);
}

} // namespace

int main() {
    std::vector<float> x(rows * width), y(rows * width);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
    for (const uint32_t seed : {0u, 1u, 2u}) {
        if (run(x, y, y.size() * 4, seed)) {
            printf("found: %s", msl::take_reports().c_str());
            return 1;
        }
        for (int r = 0; r < rows; ++r) {
            double sum = 0;
            for (int i = 0; i < width; ++i) sum += double{x[r * width + i]} * x[r * width + i];
            const double scale = 1 / std::sqrt(sum / width + 1e-5);
            for (int i = 0; i < width; ++i)
                if (std::fabs(y[r * width + i] - x[r * width + i] * scale) > 1e-5) return 2;
        }
    }
    if (!run(x, y, y.size() * 4 - 16, 1)) return 3; // the last vector is outside
    return msl::take_reports().find("out-of-bounds write") == std::string::npos ? 4 : 0;
}
