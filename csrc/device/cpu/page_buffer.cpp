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
    const bool large = pages == Pages::large_where_possible && size_ >= kLargePage;
    const uint64_t room = large ? size_ + kLargePage : size_;
    void *data = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        throw Error(ErrorCode::out_of_memory, "the operating system refused " + std::to_string(size_) + " bytes",
                    {{"needed", static_cast<int64_t>(size_)}});
    data_ = static_cast<std::byte *>(data);
    if (!large)
        return;
    // Nothing of what lies before the border and behind the end was touched: giving it back leaves size_ bytes.
    const uint64_t before = (kLargePage - reinterpret_cast<uintptr_t>(data_) % kLargePage) % kLargePage;
    const uint64_t behind = kLargePage - before;
    if (before > 0)
        munmap(data_, before);
    data_ += before;
    munmap(data_ + size_, behind);
#if defined(MADV_HUGEPAGE)
    madvise(data_, size_, MADV_HUGEPAGE); // a wish: without it everything works, with more TLB misses
#endif
}

PageBuffer::~PageBuffer() {
    if (data_)
        munmap(data_, size_);
}

} // namespace muser::cpu
