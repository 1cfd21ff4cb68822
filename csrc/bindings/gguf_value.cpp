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

nb::object convert(const gguf::Array &array, size_t limit) {
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(std::min<uint64_t>(array.count, limit))));
    if (!list.is_valid())
        throw nb::python_error();
    Py_ssize_t i = 0;
    array.each(
        [&](const auto &value) {
            nb::object element = convert(value, limit);
            if (!element.is_valid())
                throw nb::python_error();
            PyList_SET_ITEM(list.ptr(), i++, element.release().ptr());
        },
        limit);
    return list;
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
