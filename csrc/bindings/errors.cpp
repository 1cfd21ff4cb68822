// Maps muser::Error to the Python class of its code (muser.errors), with its fields as attributes.
#include "bindings/bindings.h"

#include <algorithm>
#include <cerrno>

#include <nanobind/stl/string.h>

#include "core/error.h"

namespace muser::bindings {

namespace {

const char *class_name(ErrorCode code) {
    switch (code) {
    case ErrorCode::model_format: return "ModelFormatError";
    case ErrorCode::unsupported_model: return "UnsupportedModelError";
    case ErrorCode::unsupported_device: return "UnsupportedDeviceError";
    case ErrorCode::out_of_memory: return "OutOfMemoryError";
    case ErrorCode::context_full: return "ContextFullError";
    case ErrorCode::overloaded: return "OverloadedError";
    case ErrorCode::timeout: return "WaitTimeoutError";
    case ErrorCode::unhealthy: return "UnhealthyError";
    case ErrorCode::device: return "DeviceError";
    case ErrorCode::cancelled: return "CancelledError";
    case ErrorCode::closed: return "ClosedError";
    case ErrorCode::forked: return "ForkedError";
    case ErrorCode::busy: return "BusyError";
    case ErrorCode::parameter: return "ParameterError";
    case ErrorCode::io: return "FileAccessError";
    case ErrorCode::logits: return "LogitsError";
    case ErrorCode::internal: return "InternalError";
    }
    return "InternalError";
}

// A missing file has a class of its own, so that `except FileNotFoundError` works.
const char *class_name(const Error &error) {
    const Error::Field missing{"errno", int64_t{ENOENT}};
    const auto &fields = error.fields();
    return std::find(fields.begin(), fields.end(), missing) != fields.end() ? "FileMissingError" : class_name(error.code());
}

// Paths on Linux are bytes; what is not UTF-8 in one becomes what os.fsdecode makes of it.
nb::object text(const std::string &bytes) {
    return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

void set_python_error(const Error &error) {
    nb::object type = nb::module_::import_("muser.errors").attr(class_name(error));
    nb::object value = type(text(error.message()));
    for (const auto &[name, field] : error.fields()) {
        nb::object converted = std::holds_alternative<int64_t>(field)
                                   ? nb::cast(std::get<int64_t>(field))
                                   : text(std::get<std::string>(field));
        nb::setattr(value, name.c_str(), converted);
    }
    PyErr_SetObject(type.ptr(), value.ptr());
}

} // namespace

void init_errors(nb::module_ &) {
    nb::register_exception_translator([](const std::exception_ptr &pointer, void *) {
        try {
            std::rethrow_exception(pointer);
        } catch (const Error &error) {
            set_python_error(error);
        }
    });
}

} // namespace muser::bindings
