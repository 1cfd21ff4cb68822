#include "store.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "../runtime/reports.h"
#include "settings.h"

namespace fake {
namespace {

constexpr uint64_t poison_limit = 16 << 20; // larger buffers stay unwritten, hence uncommitted
constexpr uint64_t host_page = 4096;
constexpr unsigned char canary = 0xFB;

uint64_t rounded(uint64_t bytes) { return (bytes + page - 1) / page * page; }
std::atomic<uint64_t> next_id{1};

} // namespace

Store::Store(unsigned char *base, uint64_t bytes, bool own) : memory(base, bytes), owned(own), id(next_id++) {
    if (owned) counters().allocated += static_cast<int64_t>(bytes);
}

// Metal says nothing of what a new buffer holds.
std::shared_ptr<Store> Store::make(uint64_t bytes) {
    // Mapped anew, and on Apple's page size.
    void *room = mmap(nullptr, rounded(bytes) + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return nullptr;
    auto *first = static_cast<unsigned char *>(room);
    unsigned char *base = first + (page - reinterpret_cast<uintptr_t>(first) % page) % page;
    if (base > first) munmap(first, static_cast<size_t>(base - first));
    if (const uint64_t rest = page - static_cast<uint64_t>(base - first)) munmap(base + rounded(bytes), rest);
    if (settings().poison && bytes <= poison_limit) memset(base, 0xFF, bytes);
    memset(base + bytes, canary, rounded(bytes) - bytes);
    return std::make_shared<Store>(base, bytes, true);
}

std::shared_ptr<Store> Store::lend(unsigned char *base, uint64_t bytes) {
    auto store = std::make_shared<Store>(base, bytes, false);
    store->trim_to_mapped();
    return store;
}

Store::~Store() {
    if (!owned) return;
    for (uint64_t i = memory.bytes; i < rounded(memory.bytes); ++i)
        if (memory.base[i] != canary) {
            msl::report("memory behind buffer " + std::to_string(id) + " was written");
            break;
        }
    munmap(memory.base, rounded(memory.bytes));
    counters().allocated -= static_cast<int64_t>(memory.bytes);
}

// Linux maps files in pages of 4 KiB: the first and last of Apple's pages may be there in part. What was not mapped
// from the start is no fault.
void Store::trim_to_mapped() {
    mapped_end_ = memory.bytes / host_page * host_page;
    for (uint64_t most = page / host_page; most && !mapped(mapped_begin_, mapped_begin_ + host_page); --most) mapped_begin_ += host_page;
    for (uint64_t most = page / host_page; most && !mapped(mapped_end_ - host_page, mapped_end_); --most) mapped_end_ -= host_page;
}

bool Store::mapped(uint64_t begin, uint64_t end) const {
    std::vector<unsigned char> resident((end - begin) / host_page);
    return mincore(memory.base + begin, end - begin, resident.data()) == 0;
}

bool Store::is_mapped() const { return owned || mapped(mapped_begin_, mapped_end_); }

uint64_t Store::checksum() const {
    uint64_t sum = 1469598103934665603u;
    for (uint64_t i = 0; i + 8 <= memory.bytes; i += 8) {
        uint64_t word;
        memcpy(&word, memory.base + i, 8);
        sum = (sum ^ word) * 1099511628211u;
    }
    return sum;
}

} // namespace fake
