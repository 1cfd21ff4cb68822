// What must move once: the file's bytes are read (a system call copies them into a small buffer that stays in the
// second-level cache, so no page of the file becomes resident beside the packed copy), the new pages are cleared by
// the kernel, the packed bytes are written. A thread takes a large page of the target at a time: it is cleared
// by the thread that fills it, while two threads that meet in one would both clear one.
#include "device/cpu/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "core/mapped_file.h"
#include "device/cpu/float_mode.h"
#include "device/cpu/matmul/format.h"
#include "device/cpu/weight.h"
#include "gguf/dequant.h"

namespace muser::cpu {

namespace {

constexpr size_t kReadBytes = 128 << 10; // of the file at a time, if a tile is not larger

// A part of a tensor's bytes: where the caller has them, or read from the file.
class Reader {
  public:
    std::span<const std::byte> read(const TensorView &tensor, std::span<const std::byte> part) {
        if (!tensor.file)
            return part;
        if (buffer_size_ < part.size()) {
            buffer_ = std::make_unique_for_overwrite<std::byte[]>(part.size());
            buffer_size_ = part.size();
        }
        tensor.file->read(part, buffer_.get());
        return {buffer_.get(), part.size()};
    }

  private:
    std::unique_ptr<std::byte[]> buffer_;
    size_t buffer_size_ = 0;
};

// Tiles [first, last) of a matrix, whose memory starts at `to`; that of a second plane at `low`.
struct Slice {
    const TensorView *tensor;
    CpuWeight *weight;
    std::byte *to, *low;
    uint64_t first, last;
};

// False if the matrix has no bounds and could have had some.
bool pack(const Slice &slice, Reader &reader) {
    const TensorView &tensor = *slice.tensor;
    const PackedMatrix &matrix = slice.weight->matrix();
    const auto lanes = static_cast<uint64_t>(matrix.lanes);
    const uint64_t low_bytes = low_tile_bytes(matrix.type, matrix.cols, matrix.lanes);
    bool plain = true;
    const size_t row_bytes = tensor.data.size() / tensor.rows;
    const uint64_t step = std::max<uint64_t>(1, kReadBytes / (row_bytes * lanes)); // tiles
    for (uint64_t tile = slice.first; tile < slice.last; tile += step) {
        const uint64_t row = tile * lanes, end = std::min(std::min(tile + step, slice.last) * lanes, tensor.rows);
        TensorView part = tensor;
        part.rows = end - row;
        part.data = reader.read(tensor, tensor.data.subspan(row * row_bytes, part.rows * row_bytes));
        const uint64_t tiles = (part.rows + lanes - 1) / lanes;
        std::byte *to = slice.to + tile * matrix.tile_bytes;
        if (slice.low)
            plain &= pack_split_tiles(part, matrix.lanes, to, slice.low + tile * low_bytes, 0, tiles);
        else
            pack_tiles(part, matrix.lanes, to, 0, tiles);
    }
    return plain;
}

// How a matrix of the file is packed.
BlockType packed_type(const TensorView &tensor, WeightUse use) {
    const bool is_head = use == WeightUse::head || use == WeightUse::head_and_lookup;
    return is_head && tensor.type == BlockType::Q8_0 ? kSplitQ8 : tensor.type;
}

// All matrices of one load: where each lies, and the work by large page of the common allocation.
class Packing {
  public:
    Packing(uint64_t bytes, int lanes)
        : lanes_(lanes), memory_(std::make_shared<PageBuffer>(bytes, PageBuffer::Pages::large_where_possible)),
          turns_(bytes / kLargePage + 1) {}

    std::unique_ptr<Weight> add(const TensorView &tensor, WeightUse use) {
        std::byte *const to = memory_->data() + used_;
        const PackedMatrix matrix = place_matrix(packed_type(tensor, use), tensor.rows, tensor.cols, lanes_, to);
        std::byte *const low = matrix.low ? to + (matrix.low - matrix.data) : nullptr;
        auto weight = std::make_unique<CpuWeight>(matrix, memory_);
        for (uint64_t tile = 0; tile < matrix.tiles();) {
            const uint64_t page = (used_ + tile * matrix.tile_bytes) / kLargePage;
            const uint64_t in_page = ((page + 1) * kLargePage - used_ + matrix.tile_bytes - 1) / matrix.tile_bytes;
            const uint64_t last = std::min(in_page, matrix.tiles()); // a tile belongs to the page in which it starts
            turns_[page].push_back({&tensor, weight.get(), to, low, tile, last});
            tile = last;
        }
        used_ += weight_bytes(tensor, use, lanes_);
        return weight;
    }

    void run(ThreadPool &pool) {
        pool.run([this](int) {
            const DefaultFloatMode float_mode;
            try {
                work();
            } catch (...) {
                std::lock_guard lock(mutex_);
                failure_ = std::current_exception();
                next_ = turns_.size(); // nobody begins another turn
            }
        });
        if (failure_)
            std::rethrow_exception(failure_);
    }

  private:
    void work() {
        Reader reader;
        for (size_t turn; (turn = next_.fetch_add(1, std::memory_order_relaxed)) < turns_.size();)
            for (const Slice &slice : turns_[turn])
                if (!pack(slice, reader)) {
                    std::lock_guard lock(mutex_);
                    slice.weight->refuse_bounds();
                }
    }

    const int lanes_;
    std::shared_ptr<PageBuffer> memory_;
    uint64_t used_ = 0;
    std::vector<std::vector<Slice>> turns_;
    std::atomic<size_t> next_{0};
    std::mutex mutex_;
    std::exception_ptr failure_;
};

bool is_packed(WeightUse use) { return use != WeightUse::vector && use != WeightUse::lookup; }

std::unique_ptr<Weight> load_vector(const TensorView &tensor, Reader &reader) {
    const uint64_t n = tensor.rows * tensor.cols;
    auto values = std::make_unique_for_overwrite<float[]>(n);
    gguf::dequantize(tensor.type, reader.read(tensor, tensor.data).data(), values.get(), n);
    return std::make_unique<CpuWeight>(tensor, std::move(values));
}

} // namespace

uint64_t weight_bytes(const TensorView &tensor, WeightUse use, int lanes) {
    if (use == WeightUse::vector)
        return tensor.rows * tensor.cols * sizeof(float);
    return is_packed(use) ? round_to_pages(packed_bytes(packed_type(tensor, use), tensor.rows, tensor.cols, lanes)) : 0;
}

std::vector<std::unique_ptr<Weight>> load_weights(std::span<const WeightSource> sources, int lanes, ThreadPool &pool) {
    const DefaultFloatMode float_mode;
    uint64_t bytes = 0;
    for (const WeightSource &source : sources)
        bytes += is_packed(source.use) ? weight_bytes(source.view, source.use, lanes) : 0;

    Packing packing(bytes, lanes);
    Reader reader;
    std::vector<std::unique_ptr<Weight>> weights;
    weights.reserve(sources.size());
    for (const auto &[view, use] : sources) {
        if (is_packed(use))
            weights.push_back(packing.add(view, use));
        else if (use == WeightUse::vector)
            weights.push_back(load_vector(view, reader));
        else
            weights.push_back(std::make_unique<CpuWeight>(view));
    }
    packing.run(pool);
    return weights;
}

} // namespace muser::cpu
