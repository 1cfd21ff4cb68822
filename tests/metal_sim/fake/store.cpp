#include "store.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "../runtime/reports.h"
#include "settings.h"

namespace fake {
namespace {

constexpr uint64_t poison_limit = 16 << 20; // larger buffers stay unwritten, hence uncommitted
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
    if (bytes <= poison_limit) memset(base, 0xFF, bytes);
    memset(base + bytes, canary, rounded(bytes) - bytes);
    return std::make_shared<Store>(base, bytes, true);
}

std::shared_ptr<Store> Store::lend(unsigned char *base, uint64_t bytes) {
    return std::make_shared<Store>(base, bytes, false);
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

bool Store::is_mapped() const {
    if (owned) return true;
    constexpr uint64_t step = 4096;
    std::vector<unsigned char> resident(memory.bytes / step + 1);
    return mincore(memory.base, memory.bytes, resident.data()) == 0;
}

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
