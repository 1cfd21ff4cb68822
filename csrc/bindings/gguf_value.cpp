// Lists are filled through the C API: a vocabulary of 262k strings is built in a few tens of ms.
#include "bindings/gguf_value.h"

#include <algorithm>

namespace muser::bindings {

namespace {

nb::object convert(uint64_t value, size_t) { return nb::steal(PyLong_FromUnsignedLongLong(value)); }
nb::object convert(int64_t value, size_t) { return nb::steal(PyLong_FromLongLong(value)); }
nb::object convert(double value, size_t) { return nb::steal(PyFloat_FromDouble(value)); }
nb::object convert(bool value, size_t) { return nb::bool_(value); }
nb::object convert(std::string_view bytes, size_t) { return to_python(bytes); }

nb::object convert(const std::shared_ptr<const gguf::Array> &array, size_t limit) {
    return std::visit(
        [limit](const auto &values) {
            using Element = typename std::decay_t<decltype(values)>::value_type;
            const size_t n = std::min(values.size(), limit);
            nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(n)));
            if (!list.is_valid())
                throw nb::python_error();
            for (size_t i = 0; i < n; ++i) {
                nb::object element = convert(static_cast<const Element &>(values[i]), limit);
                if (!element.is_valid())
                    throw nb::python_error();
                PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), element.release().ptr());
            }
            return list;
        },
        array->values);
}

} // namespace

nb::object to_python(std::string_view bytes) {
    const auto size = static_cast<Py_ssize_t>(bytes.size());
    if (PyObject *text = PyUnicode_DecodeUTF8(bytes.data(), size, nullptr))
        return nb::steal(text);
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        throw nb::python_error();
    PyErr_Clear();
    return nb::bytes(bytes.data(), bytes.size());
}

nb::object to_python(const gguf::Value &value, size_t limit) {
    return std::visit([limit](const auto &held) { return convert(held, limit); }, value);
}

} // namespace muser::bindings
