// muser._muser.testing.quantize: the quantizers, for comparison with an oracle.
#include "bindings/bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string_view.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "quantize/quantize.h"

namespace muser::bindings {

namespace {

using FloatArray = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::bytes quantized(std::string_view type_name, FloatArray values) {
    const auto type = gguf::type_named(type_name);
    if (!type || !quantize::can_make(*type))
        throw Error(ErrorCode::parameter, "type_name must be a tensor type that muser makes, not " + std::string(type_name),
                    {{"parameter", std::string("type_name")}, {"value", std::string(type_name)}});
    const gguf::BlockTraits &traits = gguf::traits(*type);
    if (values.size() % traits.elements != 0)
        throw parameter_error("values", "must be a multiple of " + std::to_string(traits.elements) + " values",
                              static_cast<int64_t>(values.size()));
    std::vector<std::byte> blocks(values.size() / traits.elements * traits.bytes);
    {
        nb::gil_scoped_release release;
        quantize::quantize(*type, values.data(), blocks.data(), values.size());
    }
    return nb::bytes(blocks.data(), blocks.size());
}

} // namespace

void init_testing_quantize(nb::module_ &testing) {
    testing.def("quantize", &quantized, nb::arg("type_name"), nb::arg("values"),
                "The blocks (bytes) of float32 values [n], all finite.");
}

} // namespace muser::bindings
