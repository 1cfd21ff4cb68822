// The name of a KvType, as Python says it.
#pragma once

#include <string>

#include "core/error.h"
#include "device/device.h"

namespace muser::bindings {

inline const char *kv_name(KvType type) { return type == KvType::f16 ? "f16" : type == KvType::f32 ? "f32" : "q8_0"; }

inline KvType parse_kv(const std::string &name) {
    for (KvType type : {KvType::f16, KvType::f32, KvType::q8_0})
        if (name == kv_name(type))
            return type;
    throw Error(ErrorCode::parameter, "kv_dtype must be \"f16\", \"f32\" or \"q8_0\", not \"" + name + "\"",
                {{"parameter", "kv_dtype"}, {"value", name}});
}

} // namespace muser::bindings
