// Metal source to kernels that can run: a Python process translates and compiles it (compile_service.py).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../runtime/launch.h"

namespace fake {

struct Library {
    const msl::Kernel *kernels = nullptr;
    const msl::FunctionConstant *constants = nullptr;
    const msl::Kernel *find(const std::string &name) const;
};

// Null, and `problem` says why. The same source gives the same library, for as long as the process runs.
std::shared_ptr<Library> load_source(const std::string &source, std::string *problem);

struct ConstantStorage {
    int index, data_type;
    std::vector<unsigned char> value;
};
struct Function {
    std::shared_ptr<Library> library;
    const msl::Kernel *kernel;
    std::vector<ConstantStorage> values;
};

} // namespace fake
