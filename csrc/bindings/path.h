// A path argument: str, bytes or os.PathLike, as the bytes that the operating system wants.
#pragma once

#include <string>

#include "bindings/bindings.h"
#include "core/error.h"

namespace muser::bindings {

// TypeError for other objects; Error{parameter} for a path with a zero byte in it.
inline std::string to_path(nb::handle object) {
    PyObject *bytes = nullptr;
    if (!PyUnicode_FSConverter(object.ptr(), &bytes)) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            throw nb::python_error();
        PyErr_Clear();
        throw Error(ErrorCode::parameter, "path must not contain a zero byte", {{"parameter", std::string("path")}});
    }
    const nb::bytes owned = nb::steal<nb::bytes>(bytes);
    return std::string(owned.c_str(), owned.size());
}

} // namespace muser::bindings
