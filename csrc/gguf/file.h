// A parsed GGUF model: metadata and tensor views over memory-mapped files (one, or all parts of a
// split). Every count, length, offset and type was checked; views stay valid while the Model lives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/mapped_file.h"
#include "gguf/array.h"
#include "gguf/block_type.h"

namespace muser::gguf {

// GGUF's metadata types, widened: all unsigned to uint64_t, all signed to int64_t, f32/f64 to double.
using Value = std::variant<uint64_t, int64_t, double, bool, std::string_view, Array>;

struct Entry {
    std::string_view key;
    uint32_t type; // GGUF value type id as stored
    Value value;
    uint64_t offset; // of the key in its file, for error messages
};

struct Tensor {
    std::string_view name;
    BlockType type;
    std::array<uint64_t, 4> shape; // GGUF order: shape[0] is the contiguous dimension ("in"), unused = 1
    uint32_t n_dims;
    std::span<const std::byte> data;
    const MappedFile *file;
    uint64_t offset; // of the data in its file

    uint64_t cols() const { return shape[0]; }
    uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
};

class Model {
  public:
    // path: the file, or part 1 of a split ("-00001-of-00003.gguf"); the other parts are found beside it.
    // Throws Error{io} or Error{model_format} with path and byte offset.
    static std::shared_ptr<const Model> open(const std::string &path);

    const std::string &path() const;
    uint32_t version() const;
    uint32_t alignment() const;
    std::span<const Entry> metadata() const; // file order
    std::span<const Tensor> tensors() const; // file order, parts concatenated
    std::span<const std::unique_ptr<MappedFile>> files() const;

    const Entry *find(std::string_view key) const;        // null when absent
    const Tensor *find_tensor(std::string_view name) const; // null when absent

    // Typed look-ups: empty when absent; Error{model_format} (path, offset) when of another type or out of range.
    std::optional<uint64_t> get_uint(std::string_view key) const; // accepts any non-negative integer type
    std::optional<double> get_float(std::string_view key) const;  // accepts f32/f64
    std::optional<bool> get_bool(std::string_view key) const;
    std::optional<std::string_view> get_string(std::string_view key) const;

    struct Impl;
    explicit Model(std::unique_ptr<Impl> impl);
    ~Model();

  private:
    std::unique_ptr<Impl> impl_;
};

} // namespace muser::gguf
