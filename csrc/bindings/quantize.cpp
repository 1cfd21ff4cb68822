// Quantizing a file: the types of a mix, and the job. muser.quantizing makes of it what users call.
#include "bindings/bindings.h"
#include "bindings/unlocked.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/gguf_file.h"
#include "bindings/path.h"
#include "core/memory.h"
#include "quantize/job.h"
#include "quantize/mix.h"

namespace muser::bindings {

namespace {

std::vector<std::string> mixes() {
    std::vector<std::string> names;
    for (const quantize::Mix &mix : quantize::mixes())
        names.emplace_back(mix.name);
    return names;
}

std::vector<std::string> mix_types(const GgufFile &file, std::string_view mix) {
    std::vector<std::string> names;
    for (gguf::BlockType type : quantize::types_of(*file.model, quantize::mix_named(mix)))
        names.emplace_back(gguf::traits(type).name);
    return names;
}

std::vector<gguf::BlockType> parsed(const std::vector<std::string> &names, size_t n_tensors) {
    if (names.size() != n_tensors)
        throw parameter_error("tensor_types", "must have one type for each tensor", static_cast<int64_t>(names.size()));
    std::vector<gguf::BlockType> types;
    for (const std::string &name : names) {
        const auto type = gguf::type_named(name);
        if (!type)
            throw Error(ErrorCode::parameter, "tensor_types must hold tensor types of muser, not " + name,
                        {{"parameter", std::string("tensor_types")}, {"value", name}});
        types.push_back(*type);
    }
    return types;
}

uint64_t run(const GgufFile &file, nb::handle target, std::string_view mix, const std::vector<std::string> &tensor_types,
             std::optional<int> threads, nb::object progress) {
    const std::vector<gguf::BlockType> types = parsed(tensor_types, file.model->tensors().size());
    quantize::Job job{file.model.get(), to_path(target), types, quantize::mix_named(mix).file_type,
                      threads.value_or(available_cores()), {}};
    job.progress = [&](uint64_t done, uint64_t all) {
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0)
            throw nb::python_error();
        if (!progress.is_none())
            progress(done, all);
    };
    const auto kept = file.model; // whatever Python does meanwhile
    Unlocked unlocked;
    return quantize::run(job);
}

} // namespace

void init_quantize(nb::module_ &m) {
    m.def("quantize_mixes", &mixes, "The names that quantize_types takes, in the order of their size.");
    m.def("quantize_types", &mix_types, nb::arg("file"), nb::arg("mix"),
          "The type of every tensor of the file under that mix, in the file's order.");
    m.def("quantize_file", &run, nb::arg("file"), nb::arg("target"), nb::arg("mix"), nb::arg("tensor_types"),
          nb::arg("threads") = nb::none(), nb::arg("progress") = nb::none(),
          "Writes the file with these tensor types to target; returns its size in bytes. progress(done, all), in values.");
}

} // namespace muser::bindings
