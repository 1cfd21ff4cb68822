// What the checker remembers of memory: for every byte, who wrote it last and who has read it since.
//
// Threadgroups are numbered in the order they run, over all dispatches. An access is ordered after an earlier one if
// that was at or before the memory's `ordered` number (a barrier of the encoder, a finished command buffer), or came
// from the same thread, or from the same threadgroup before a barrier of the right kind.
#pragma once

#include <cstdint>
#include <cstddef>
#include <memory>
#include <vector>

namespace msl {

// How far apart the threads are whose accesses one record stands for.
enum class Spread : uint8_t { one_thread, simd_group, threadgroup, dispatch };

struct Access {
    uint32_t group = 0; // number of the threadgroup, the last one's; 0: none
    uint16_t epoch = 0; // threadgroup barriers before it, of the kind that orders this memory
    uint16_t simd_epoch = 0;
    uint16_t thread = 0;
    Spread spread = Spread::one_thread; // of reads since the last write, and of atomic writes
    bool atomic = false;
};
struct Cell {
    Access write, read;
};

// Cells of a stretch of memory, made a page at a time when they are first touched.
class Shadow {
  public:
    explicit Shadow(size_t bytes) : pages_((bytes + page - 1) / page) {}
    Cell &at(size_t offset) {
        auto &cells = pages_[offset / page];
        if (!cells) cells = std::make_unique<Cell[]>(page);
        return cells[offset % page];
    }
    void clear() {
        for (auto &cells : pages_) cells.reset();
    }

  private:
    static constexpr size_t page = 1024;
    std::vector<std::unique_ptr<Cell[]>> pages_;
};

// A buffer of the device, or an array that a test lends to a kernel.
struct Allocation {
    Allocation(unsigned char *first, size_t size) : base(first), bytes(size), shadow(size) {}
    unsigned char *base;
    size_t bytes;
    Shadow shadow;
    uint32_t ordered = 0;
    // Some kernel may write it. Nobody races over memory that is only read, and weights are most of what is read.
    bool written = false;
};

uint32_t last_threadgroup_number(); // that has been given out
uint32_t next_threadgroup_number();

} // namespace msl
