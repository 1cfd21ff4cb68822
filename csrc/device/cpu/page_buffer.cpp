// PageBuffer over mmap.
#include "device/cpu/page_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

namespace muser::cpu {

uint64_t round_to_pages(uint64_t bytes) {
    static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

PageBuffer::PageBuffer(uint64_t bytes, Pages pages) : size_(round_to_pages(bytes)) {
    if (size_ == 0)
        return;
    const bool aligned = size_ >= kLargePage;
    const uint64_t room = aligned ? size_ + kLargePage : size_;
    void *data = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        throw Error(ErrorCode::out_of_memory, "the operating system refused " + std::to_string(size_) + " bytes",
                    {{"needed", static_cast<int64_t>(size_)}});
    data_ = static_cast<std::byte *>(data);
    if (!aligned)
        return;
    // Nothing of what lies before the border and behind the end was touched: giving it back leaves size_ bytes.
    const uint64_t before = (kLargePage - reinterpret_cast<uintptr_t>(data_) % kLargePage) % kLargePage;
    const uint64_t behind = kLargePage - before;
    if (before > 0)
        munmap(data_, before);
    data_ += before;
    munmap(data_ + size_, behind);
    if (pages == Pages::large_where_possible)
        ask_for_large_pages();
}

void PageBuffer::clear_to_large_pages() {
#if defined(MADV_HUGEPAGE) // there a private page that was given up reads as zeros again
    if (size_ == 0 || madvise(data_, size_, MADV_DONTNEED) != 0)
        return;
    ask_for_large_pages();
#endif
}

void PageBuffer::ask_for_large_pages() {
#if defined(MADV_HUGEPAGE)
    madvise(data_, size_, MADV_HUGEPAGE); // a wish: without it everything works, with more TLB misses
#endif
}

PageBuffer::~PageBuffer() {
    if (data_)
        munmap(data_, size_);
}

} // namespace muser::cpu
