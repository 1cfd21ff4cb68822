// A record is: name, u32 n_dims, n_dims x u64 extent, u32 type, u64 offset from the data section's start.
// The data section starts at the first multiple of the alignment after the last record.
#include "gguf/tensor_table.h"

#include <algorithm>
#include <numeric>

#include "gguf/name_index.h"
#include "gguf/type_names.h"

namespace muser::gguf {

namespace {

constexpr uint64_t kMinRecordBytes = 8 + 1 + 4 + 8 + 4 + 8; // one byte of name, one dimension

// Where the fields of a record lie, for messages about it after the whole table was read.
struct Placed {
    Tensor tensor;
    uint64_t record_at;
    uint64_t offset_at;
    uint64_t n_bytes;
};

void read_shape(Cursor &cursor, const Subject &subject, Tensor &tensor) {
    const uint64_t at = cursor.position();
    tensor.n_dims = cursor.read<uint32_t>(subject);
    if (tensor.n_dims < 1 || tensor.n_dims > tensor.shape.size())
        cursor.fail(at, subject.text() + " has " + std::to_string(tensor.n_dims) + " dimensions, not 1 to 4");
    tensor.shape = {1, 1, 1, 1};
    for (uint32_t i = 0; i < tensor.n_dims; ++i) {
        const uint64_t extent_at = cursor.position();
        tensor.shape[i] = cursor.read<uint64_t>(subject);
        if (tensor.shape[i] == 0)
            cursor.fail(extent_at, subject.text() + " has 0 elements in dimension " + std::to_string(i));
    }
}

BlockTraits read_type(Cursor &cursor, const Subject &subject, Tensor &tensor) {
    const uint64_t at = cursor.position();
    const auto id = cursor.read<uint32_t>(subject);
    if (const auto traits = traits_of(id)) {
        tensor.type = static_cast<BlockType>(id);
        return *traits;
    }
    const std::string_view name = unsupported_type_name(id);
    if (name.empty())
        cursor.fail(at, subject.text() + " has the type " + std::to_string(id) + ", which GGUF does not define");
    throw Error(ErrorCode::unsupported_model,
                cursor.path() + ": " + subject.text() + " has the type " + std::to_string(id) + " (" + std::string(name) +
                    "), which muser does not read (at byte " + std::to_string(at) + ")",
                {{"path", cursor.path()}});
}

// Bytes of the tensor's data; refuses products beyond 2^63 and rows that are no whole number of blocks.
uint64_t data_bytes(const Cursor &cursor, uint64_t shape_at, const Subject &subject, const Tensor &tensor,
                    const BlockTraits &traits) {
    if (tensor.cols() % traits.elements != 0)
        cursor.fail(shape_at, subject.text() + " has rows of " + std::to_string(tensor.cols()) + " elements, no multiple of " +
                                  std::string(traits.name) + "'s block of " + std::to_string(traits.elements));
    uint64_t n_bytes = tensor.cols() / traits.elements;
    bool overflow = __builtin_mul_overflow(n_bytes, uint64_t{traits.bytes}, &n_bytes);
    uint64_t n_values = tensor.cols();
    for (size_t i = 1; i < tensor.shape.size(); ++i) {
        overflow |= __builtin_mul_overflow(n_bytes, tensor.shape[i], &n_bytes);
        overflow |= __builtin_mul_overflow(n_values, tensor.shape[i], &n_values);
    }
    if (overflow || n_bytes > INT64_MAX || n_values > INT64_MAX)
        cursor.fail(shape_at, subject.text() + " has a shape whose size overflows");
    return n_bytes;
}

Placed read_record(Cursor &cursor, uint64_t index) {
    Placed placed{};
    placed.record_at = cursor.position();
    placed.tensor.name = cursor.read_name({"a tensor name", {}}, "the name of tensor", index);
    const Subject subject{"tensor", placed.tensor.name};
    const uint64_t shape_at = cursor.position();
    read_shape(cursor, subject, placed.tensor);
    const BlockTraits traits = read_type(cursor, subject, placed.tensor);
    placed.n_bytes = data_bytes(cursor, shape_at, subject, placed.tensor, traits);
    placed.offset_at = cursor.position();
    placed.tensor.offset = cursor.read<uint64_t>(subject);
    return placed;
}

// Turns the offset in the data section into a view, or refuses it.
void place(const Cursor &cursor, Placed &placed, uint64_t data_start, uint32_t alignment, std::span<const std::byte> bytes) {
    const Subject subject{"tensor", placed.tensor.name};
    const uint64_t offset = placed.tensor.offset;
    if (offset % alignment != 0)
        cursor.fail(placed.offset_at, subject.text() + " lies at data offset " + std::to_string(offset) +
                                          ", no multiple of the alignment " + std::to_string(alignment));
    const uint64_t section = data_start < bytes.size() ? bytes.size() - data_start : 0;
    if (placed.n_bytes > section || offset > section - placed.n_bytes)
        cursor.fail(placed.offset_at, subject.text() + " has " + std::to_string(placed.n_bytes) + " bytes at data offset " +
                                          std::to_string(offset) + ", but the data section has only " +
                                          std::to_string(section) + ": the file is truncated or damaged");
    placed.tensor.offset = data_start + offset;
    placed.tensor.data = bytes.subspan(placed.tensor.offset, placed.n_bytes);
}

void refuse_overlap(const Cursor &cursor, std::span<const Placed> placed) {
    std::vector<size_t> order(placed.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return placed[a].tensor.offset < placed[b].tensor.offset; });
    for (size_t i = 1; i < order.size(); ++i) {
        const Placed &before = placed[order[i - 1]], &after = placed[order[i]];
        if (before.tensor.offset + before.n_bytes > after.tensor.offset)
            cursor.fail(after.offset_at, "tensor " + quoted(after.tensor.name) + " begins at byte " +
                                             std::to_string(after.tensor.offset) + ", inside tensor " +
                                             quoted(before.tensor.name));
    }
}

} // namespace

std::vector<Tensor> read_tensors(Cursor &cursor, uint64_t count, uint32_t alignment, std::span<const std::byte> bytes,
                                 const MappedFile *file) {
    cursor.require_elements(count, kMinRecordBytes, {"the tensor table", {}});
    std::vector<Placed> placed;
    placed.reserve(count);
    for (uint64_t i = 0; i < count; ++i)
        placed.push_back(read_record(cursor, i));

    const uint64_t data_start = (cursor.position() + alignment - 1) / alignment * alignment;
    std::vector<Tensor> tensors;
    tensors.reserve(count);
    for (Placed &record : placed) {
        place(cursor, record, data_start, alignment, bytes);
        record.tensor.file = file;
        tensors.push_back(record.tensor);
    }
    if (const Tensor *twin = first_duplicate(std::span<const Tensor>(tensors), &Tensor::name))
        cursor.fail(placed[static_cast<size_t>(twin - tensors.data())].record_at,
                    "tensor " + quoted(twin->name) + " appears twice");
    refuse_overlap(cursor, placed);
    return tensors;
}

} // namespace muser::gguf
