#include "quantize/job.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "core/thread_pool.h"
#include "gguf/cursor.h"
#include "gguf/dequant.h"
#include "gguf/text.h"
#include "quantize/header.h"
#include "quantize/output_file.h"
#include "quantize/quantize.h"

namespace muser::quantize {

namespace {

// What a thread takes at a time: a whole number of blocks of every type, 256 KiB as floats, so that it stays in a cache.
constexpr uint64_t kSlice = 1 << 16;
constexpr uint64_t kSlicesInPiece = 128; // 8 M values, at most 32 MB: what lies between two writes

// The first exception of a parallel region, whose body must not throw.
class FirstError {
  public:
    template <class F> void guard(F &&f) noexcept {
        try {
            f();
        } catch (...) {
            std::lock_guard lock(mutex_);
            if (!first_)
                first_ = std::current_exception();
        }
    }
    void raise() {
        if (first_)
            std::rethrow_exception(first_);
    }

  private:
    std::mutex mutex_;
    std::exception_ptr first_;
};

uint64_t bytes_of(gguf::BlockType type, uint64_t values) {
    return values / gguf::traits(type).elements * gguf::traits(type).bytes;
}

struct Buffers { // of one thread
    std::vector<std::byte> source = std::vector<std::byte>(kSlice * sizeof(float));
    std::vector<float> values = std::vector<float>(kSlice);
};

void convert(const Planned &tensor, uint64_t first, uint64_t count, std::byte *to, Buffers &buffers) {
    const gguf::Tensor &source = *tensor.source;
    const auto stored = source.data.subspan(bytes_of(source.type, first), bytes_of(source.type, count));
    if (source.type == tensor.type)
        return source.file->read(stored, to);
    source.file->read(stored, buffers.source.data());
    gguf::dequantize(source.type, buffers.source.data(), buffers.values.data(), count);
    const uint64_t unfit = first_unfit(tensor.type, buffers.values.data(), count);
    if (unfit < count)
        throw gguf::format_error(source.file->path(), source.offset + bytes_of(source.type, first),
                                 "tensor " + gguf::quoted(source.name) + " holds " + std::to_string(buffers.values[unfit]) +
                                     " as value " + std::to_string(first + unfit) + ", which " +
                                     std::string(gguf::traits(tensor.type).name) + " cannot hold");
    quantize(tensor.type, buffers.values.data(), to, count);
}

void check(const Job &job, std::span<const Planned> tensors) {
    for (const auto &file : job.model->files())
        if (OutputFile::same(file->path(), job.path))
            throw Error(ErrorCode::parameter, "target must not be a file of the source: " + job.path,
                        {{"parameter", std::string("target")}, {"value", job.path}});
    for (const Planned &tensor : tensors) {
        const auto &traits = gguf::traits(tensor.type);
        const bool fits = tensor.source->cols() % traits.elements == 0;
        if (tensor.source->type != tensor.type && (!fits || !can_make(tensor.type)))
            throw Error(ErrorCode::parameter,
                        "the type of " + gguf::quoted(tensor.source->name) + " must not be " + std::string(traits.name) +
                            (fits ? ", which is read but not made"
                                  : ": its rows have " + std::to_string(tensor.source->cols()) + " values, no multiple of " +
                                        std::to_string(traits.elements)),
                        {{"parameter", std::string("tensor_types")}, {"value", std::string(traits.name)}});
    }
}

} // namespace

uint64_t run(const Job &job) {
    std::vector<Planned> tensors;
    uint64_t all = 0, done = 0;
    for (size_t i = 0; i < job.types.size(); ++i)
        all += tensors.emplace_back(Planned{&job.model->tensors()[i], job.types[i]}).values();
    check(job, tensors);

    ThreadPool pool(job.threads);
    std::vector<Buffers> buffers(static_cast<size_t>(job.threads));
    std::vector<std::byte> piece;
    OutputFile out(job.path);
    out.write(header_of(*job.model, tensors, job.file_type));
    for (const Planned &tensor : tensors) {
        for (uint64_t first = 0; first < tensor.values(); first += kSlice * kSlicesInPiece) {
            const uint64_t count = std::min(tensor.values() - first, kSlice * kSlicesInPiece);
            piece.resize(bytes_of(tensor.type, count));
            std::atomic<uint64_t> next{0};
            FirstError error;
            pool.run([&](int thread) {
                error.guard([&] {
                    for (uint64_t at; (at = next.fetch_add(kSlice)) < count;)
                        convert(tensor, first + at, std::min(count - at, kSlice), piece.data() + bytes_of(tensor.type, at),
                                buffers[static_cast<size_t>(thread)]);
                });
            });
            error.raise();
            out.write(piece);
            done += count;
            if (job.progress)
                job.progress(done, all);
        }
        piece.assign(padded(out.size(), job.model->alignment()) - out.size(), std::byte{0});
        out.write(piece);
    }
    for (const auto &file : job.model->files())
        if (file->changed())
            throw Error(ErrorCode::io, file->path() + ": was written to while it was being read",
                        {{"path", file->path()}, {"filename", file->path()}});
    out.finish();
    return out.size();
}

} // namespace muser::quantize
