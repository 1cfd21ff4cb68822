// muser._muser.testing.dequantize: the reference dequantizers, for comparison with an oracle.
#include "bindings/bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string_view.h>

#include <memory>
#include <string>

#include "core/error.h"
#include "gguf/dequant.h"

namespace muser::bindings {

namespace {

using FloatArray = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

gguf::BlockType block_type(std::string_view name) {
    if (const auto type = gguf::type_named(name))
        return *type;
    throw Error(ErrorCode::parameter, "type_name must be a tensor type of muser, not " + std::string(name),
                {{"parameter", "type_name"}, {"value", std::string(name)}});
}

FloatArray dequantize(std::string_view type_name, nb::bytes data, int64_t n_values) {
    const gguf::BlockType type = block_type(type_name);
    const gguf::BlockTraits &traits = gguf::traits(type);
    if (n_values < 0 || n_values % traits.elements != 0)
        throw parameter_error("n_values", "must be a multiple of " + std::to_string(traits.elements), n_values);
    const uint64_t n_blocks = static_cast<uint64_t>(n_values) / traits.elements;
    if (data.size() % traits.bytes != 0 || data.size() / traits.bytes != n_blocks)
        throw parameter_error("data", "must have " + std::to_string(traits.bytes) + " bytes for each block",
                              static_cast<int64_t>(data.size()));
    auto values = std::make_unique<float[]>(static_cast<size_t>(n_values));
    gguf::dequantize(type, static_cast<const std::byte *>(data.data()), values.get(), static_cast<size_t>(n_values));
    float *raw = values.get();
    nb::capsule owner(raw, [](void *p) noexcept { delete[] static_cast<float *>(p); });
    values.release();
    return FloatArray(raw, {static_cast<size_t>(n_values)}, owner);
}

} // namespace

void init_testing_dequant(nb::module_ &testing) {
    testing.def("dequantize", &dequantize, nb::arg("type_name"), nb::arg("data"), nb::arg("n_values"),
                "Float32 values [n_values] of the blocks in data (bytes), by the reference dequantizer.");
}

} // namespace muser::bindings
