// The name of a KvType, as Python says it.
#pragma once

#include <string>

#include "core/error.h"
#include "device/device.h"

namespace muser::bindings {

inline KvType parse_kv(const std::string &name) {
    if (name == "f16")
        return KvType::f16;
    if (name == "f32")
        return KvType::f32;
    if (name == "q8_0")
        return KvType::q8_0;
    throw Error(ErrorCode::parameter, "kv_dtype must be \"f16\", \"f32\" or \"q8_0\", not \"" + name + "\"",
                {{"parameter", "kv_dtype"}, {"value", name}});
}

inline const char *kv_name(KvType type) { return type == KvType::f16 ? "f16" : type == KvType::f32 ? "f32" : "q8_0"; }

} // namespace muser::bindings
