// GgufFile: a parsed GGUF model for tools and the tokenizer. It holds no device and runs nothing.
#include "bindings/bindings.h"
#include "bindings/unlocked.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/gguf_file.h"
#include "bindings/gguf_value.h"
#include "bindings/path.h"
#include "gguf/value_type.h"
#include "text/strings.h"

namespace muser::bindings {

namespace {

GgufFile open(nb::handle path) {
    const std::string bytes = to_path(path);
    Unlocked unlocked; // a cold disk
    return {gguf::Model::open(bytes)};
}

nb::object path_text(const std::string &path) {
    return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

nb::dict metadata(const GgufFile &self) {
    nb::dict values;
    for (const gguf::Entry &entry : self.model->metadata())
        values[to_python(entry.key)] = to_python(entry.value);
    return values;
}

nb::object get(const GgufFile &self, std::string_view key, nb::object fallback, std::optional<size_t> limit) {
    const gguf::Entry *entry = self.model->find(key);
    return entry ? to_python(entry->value, limit.value_or(SIZE_MAX)) : fallback;
}

template <class T> nb::object numpy_array(const gguf::Array &array) {
    auto values = std::make_unique_for_overwrite<T[]>(array.count);
    std::memcpy(values.get(), array.bytes.data(), array.count * sizeof(T));
    nb::capsule owner(values.get(), [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values.release(), {array.count}, owner));
}

std::shared_ptr<const text::Strings> strings_of(const gguf::Array &array) {
    Unlocked unlocked;
    auto strings = std::make_shared<text::Strings>();
    strings->reserve(array.count, array.bytes.size() - array.count * sizeof(uint64_t));
    array.each([&](const auto &element) {
        if constexpr (std::is_same_v<std::decay_t<decltype(element)>, std::string_view>)
            strings->add(element);
    });
    return strings;
}

nb::object array(const GgufFile &self, std::string_view key) {
    const gguf::Entry *entry = self.model->find(key);
    const auto *array = entry ? std::get_if<gguf::Array>(&entry->value) : nullptr;
    if (!array)
        return nb::none();
    switch (array->element_type) {
    case gguf::kUint8: return numpy_array<uint8_t>(*array);
    case gguf::kInt8: return numpy_array<int8_t>(*array);
    case gguf::kUint16: return numpy_array<uint16_t>(*array);
    case gguf::kInt16: return numpy_array<int16_t>(*array);
    case gguf::kUint32: return numpy_array<uint32_t>(*array);
    case gguf::kInt32: return numpy_array<int32_t>(*array);
    case gguf::kUint64: return numpy_array<uint64_t>(*array);
    case gguf::kInt64: return numpy_array<int64_t>(*array);
    case gguf::kFloat32: return numpy_array<float>(*array);
    case gguf::kFloat64: return numpy_array<double>(*array);
    case gguf::kString: return nb::cast(strings_of(*array));
    default: return nb::none();
    }
}

bool changed(const GgufFile &self) {
    return std::ranges::any_of(self.model->files(), [](const auto &file) { return file->changed(); });
}

nb::list entries(const GgufFile &self) {
    nb::list rows;
    for (const gguf::Entry &entry : self.model->metadata()) {
        const auto *array = std::get_if<gguf::Array>(&entry.value);
        const uint32_t type = array ? array->element_type : entry.type;
        nb::object count = array ? nb::object(nb::int_(array->count)) : nb::none();
        rows.append(nb::make_tuple(to_python(entry.key), to_python(gguf::value_type_name(type)), count));
    }
    return rows;
}

nb::dict offsets(const GgufFile &self) {
    nb::dict values;
    for (const gguf::Entry &entry : self.model->metadata())
        values[to_python(entry.key)] = entry.offset;
    return values;
}

nb::list tensors(const GgufFile &self) {
    nb::list rows;
    for (const gguf::Tensor &tensor : self.model->tensors()) {
        nb::list shape;
        for (uint32_t i = 0; i < tensor.n_dims; ++i)
            shape.append(tensor.shape[i]);
        rows.append(nb::make_tuple(to_python(tensor.name), to_python(gguf::traits(tensor.type).name), nb::tuple(shape),
                                   tensor.offset, tensor.data.size()));
    }
    return rows;
}

nb::list files(const GgufFile &self) {
    nb::list paths;
    for (const auto &file : self.model->files())
        paths.append(path_text(file->path()));
    return paths;
}

using Bytes = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>;

Bytes tensor_data(const GgufFile &self, std::string_view name) {
    const gguf::Tensor *tensor = self.model->find_tensor(name);
    if (!tensor)
        throw nb::key_error(std::string(name).c_str());
    auto keeper = std::make_unique<std::shared_ptr<const gguf::Model>>(self.model);
    nb::capsule owner(keeper.get(), [](void *p) noexcept { delete static_cast<std::shared_ptr<const gguf::Model> *>(p); });
    keeper.release();
    return Bytes(reinterpret_cast<const uint8_t *>(tensor->data.data()), {tensor->data.size()}, owner);
}

// From the file itself: through the mapping every tensor would make its page, and the pages around, resident.
nb::typed<nb::list, nb::bytes> tensor_heads(const GgufFile &self, size_t n) {
    nb::typed<nb::list, nb::bytes> heads;
    std::vector<std::byte> head(n);
    for (const gguf::Tensor &tensor : self.model->tensors()) {
        const auto bytes = tensor.data.first(std::min(n, tensor.data.size()));
        tensor.file->read(bytes, head.data());
        heads.append(nb::bytes(head.data(), bytes.size()));
    }
    return heads;
}

} // namespace

void init_gguf(nb::module_ &m) {
    nb::class_<GgufFile>(m, "GgufFile",
                         "A parsed, memory-mapped GGUF model: one file, or all parts of a split one (open the first).\n\n"
                         "Raises FileAccessError, ModelFormatError (path, offset) or UnsupportedModelError.")
        .def("__init__", [](GgufFile *self, nb::object path) { new (self) GgufFile(open(path)); }, nb::arg("path"))
        .def_prop_ro("path", [](const GgufFile &self) { return path_text(self.model->path()); })
        .def_prop_ro("files", &files, "Paths of all parts; one for a model that is not split.")
        .def_prop_ro("version", [](const GgufFile &self) { return self.model->version(); })
        .def_prop_ro("alignment", [](const GgufFile &self) { return self.model->alignment(); }, "In bytes.")
        .def("metadata", &metadata, "All metadata as a dict: int, float, bool, str (bytes where not UTF-8), lists of them.")
        .def("get", &get, nb::arg("key"), nb::arg("default") = nb::none(), nb::kw_only(), nb::arg("limit") = nb::none(),
             "The value of one key, else default. Of an array at most limit elements are converted.")
        .def("array", &array, nb::arg("key"),
             "An array without a Python object for each element: Strings, or a numpy array [n] of the type in the file. None "
             "where the key is missing or no array of strings or numbers.")
        .def_prop_ro("changed", &changed, "Whether the file was written to since it was opened.")
        .def("entries", &entries,
             "(key, type, count) of each entry in file order; count is None for a scalar, and type is then an array's element type.")
        .def("offsets", &offsets, "The byte offset of each key in the (first) file, for error messages.")
        .def("tensors", &tensors,
             "(name, type, shape, offset, nbytes) of each tensor in file order. shape[0] is the contiguous dimension; "
             "offset is in the tensor's own file.")
        .def("tensor_data", &tensor_data, nb::arg("name"),
             "The tensor's bytes in the mapped file, read-only uint8 [nbytes], zero copy. KeyError when there is none.")
        .def("tensor_heads", &tensor_heads, nb::arg("n"),
             "At most n bytes of the beginning of each tensor, in file order, read from the file: list[bytes]. FileAccessError where it "
             "has become shorter.");
}

} // namespace muser::bindings
