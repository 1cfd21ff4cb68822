// Model: one parsed file, or all parts of a split one, with the look-ups.
#include "gguf/file.h"

#include "gguf/cursor.h"
#include "gguf/lookup.h"
#include "gguf/name_index.h"
#include "gguf/part.h"
#include "gguf/split.h"

namespace muser::gguf {

struct Model::Impl {
    std::string path;
    std::vector<std::unique_ptr<MappedFile>> files;
    Part part; // of the first file; its tensors are those of all parts
    NameIndex<Entry> entry_index;
    NameIndex<Tensor> tensor_index;
};

namespace {

Part open_part(std::vector<std::unique_ptr<MappedFile>> &files, const std::string &path) {
    const MappedFile &file = *files.emplace_back(std::make_unique<MappedFile>(path));
    return parse_part(file.bytes(), file.path(), &file);
}

Part open_later_part(std::vector<std::unique_ptr<MappedFile>> &files, const std::string &path, uint32_t number,
                     uint32_t count) {
    try {
        Part part = open_part(files, path);
        check_split_part(part, path, number, count);
        return part;
    } catch (const Error &error) {
        if (error.code() != ErrorCode::io)
            throw;
        throw Error(ErrorCode::io,
                    "part " + std::to_string(number + 1) + " of " + std::to_string(count) + " cannot be opened: " + error.message(),
                    error.fields());
    }
}

} // namespace

std::shared_ptr<const Model> Model::open(const std::string &path) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->part = open_part(impl->files, path);
    std::vector<Tensor> &tensors = impl->part.tensors;
    const uint32_t count = split_count(impl->part, path);
    for (uint32_t number = 1; number < count; ++number) {
        const Part later = open_later_part(impl->files, split_path(path, number, count), number, count);
        tensors.insert(tensors.end(), later.tensors.begin(), later.tensors.end());
    }
    impl->entry_index = {impl->part.metadata, &Entry::key};
    impl->tensor_index = {tensors, &Tensor::name};
    if (count > 1) {
        check_split_total(impl->part, path, tensors.size());
        if (const Tensor *twin = impl->tensor_index.duplicate())
            throw format_error(twin->file->path(), twin->offset,
                               "tensor " + quoted(twin->name) + " is in an earlier part of the model too");
    }
    return std::make_shared<const Model>(std::move(impl));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

const std::string &Model::path() const { return impl_->path; }
uint32_t Model::version() const { return impl_->part.version; }
uint32_t Model::alignment() const { return impl_->part.alignment; }
std::span<const Entry> Model::metadata() const { return impl_->part.metadata; }
std::span<const Tensor> Model::tensors() const { return impl_->part.tensors; }
std::span<const std::unique_ptr<MappedFile>> Model::files() const { return impl_->files; }

const Entry *Model::find(std::string_view key) const { return impl_->entry_index.find(key); }
const Tensor *Model::find_tensor(std::string_view name) const { return impl_->tensor_index.find(name); }

std::optional<uint64_t> Model::get_uint(std::string_view key) const {
    const Entry *entry = find(key);
    return entry ? std::optional(as_uint(*entry, path())) : std::nullopt;
}

std::optional<double> Model::get_float(std::string_view key) const {
    const Entry *entry = find(key);
    return entry ? std::optional(as_float(*entry, path())) : std::nullopt;
}

std::optional<bool> Model::get_bool(std::string_view key) const {
    const Entry *entry = find(key);
    return entry ? std::optional(as_bool(*entry, path())) : std::nullopt;
}

std::optional<std::string_view> Model::get_string(std::string_view key) const {
    const Entry *entry = find(key);
    return entry ? std::optional(as_string(*entry, path())) : std::nullopt;
}

} // namespace muser::gguf
