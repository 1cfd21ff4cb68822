// mmap of a whole regular file, read-only and shared with the page cache.
#include "core/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/error.h"

namespace muser {

namespace {

[[noreturn]] void refuse(const std::string &path, const std::string &reason) {
    throw Error(ErrorCode::io, path + ": " + reason, {{"path", path}, {"filename", path}});
}

[[noreturn]] void refuse(const std::string &path, int code, const std::string &what = "") {
    const std::string reason = std::generic_category().message(code);
    throw Error(ErrorCode::io, path + ": " + what + reason,
                {{"path", path}, {"filename", path}, {"errno", int64_t{code}}, {"strerror", reason}});
}

// The pages of Apple's chips. A device that borrows a mapping does so by these, on every system (Metal is simulated on
// Linux): it begins on one, and the last is readable to its end.
constexpr size_t kPage = 16384;

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct Descriptor {
    int fd;
    explicit Descriptor(const std::string &path) {
        // O_NONBLOCK: opening a pipe that nobody writes to must not hang the host.
        do {
            fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        } while (fd < 0 && errno == EINTR);
        if (fd < 0)
            refuse(path, errno);
    }
    ~Descriptor() { ::close(fd); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
};

} // namespace

MappedFile::Descriptor::Descriptor(const std::string &path) {
    if (path.find('\0') != std::string::npos)
        throw Error(ErrorCode::io, "a path must not contain a zero byte", {{"path", path}});
    // O_NONBLOCK: opening a pipe that nobody writes to must not hang the host.
    do {
        fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        refuse(path, errno);
}

MappedFile::Descriptor::~Descriptor() { ::close(fd); }

MappedFile::Stamp MappedFile::stamp_of(const struct stat &status) noexcept {
#if defined(__APPLE__)
    const struct timespec &written = status.st_mtimespec;
#else
    const struct timespec &written = status.st_mtim;
#endif
    return {status.st_size, written.tv_sec, written.tv_nsec};
}

MappedFile::MappedFile(const std::string &path) : path_(path), file_(path) {
    struct stat status {};
    if (::fstat(file_.fd, &status) != 0)
        refuse(path, errno);
    if (S_ISDIR(status.st_mode))
        refuse(path, EISDIR);
    if (!S_ISREG(status.st_mode))
        refuse(path, "not a regular file");
    opened_ = stamp_of(status);
    size_ = static_cast<size_t>(status.st_size);
    if (size_ == 0) // mmap refuses a length of zero; what an empty file means is the reader's business
        return;
    const size_t reserved = whole_pages(size_) + kPage;
    void *room = ::mmap(nullptr, reserved, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        refuse(path, errno, "cannot be memory-mapped: ");
    auto *const first = static_cast<std::byte *>(room);
    auto *const at = reinterpret_cast<std::byte *>(whole_pages(reinterpret_cast<uintptr_t>(first)));
    if (::mmap(at, size_, PROT_READ, MAP_SHARED | MAP_FIXED, file_.fd, 0) == MAP_FAILED) {
        const int code = errno;
        ::munmap(room, reserved);
        refuse(path, code, "cannot be memory-mapped: ");
    }
    if (at > first)
        ::munmap(first, static_cast<size_t>(at - first));
    std::byte *const end = at + whole_pages(size_);
    if (end < first + reserved)
        ::munmap(end, static_cast<size_t>(first + reserved - end));
    data_ = at;
}

MappedFile::~MappedFile() {
    if (data_)
        ::munmap(const_cast<std::byte *>(data_), whole_pages(size_));
}

void MappedFile::release(std::span<const std::byte> range) const noexcept {
    if (range.empty() || range.data() < data_ || range.size() > size_ ||
        static_cast<size_t>(range.data() - data_) > size_ - range.size())
        return;
    // Whole pages only: a page shared with a neighbour may still be in use.
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
    const auto end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
    if (begin < end)
        ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::read(std::span<const std::byte> range, std::byte *to) const {
    auto at = static_cast<off_t>(range.data() - data_);
    for (size_t left = range.size(); left > 0;) {
        const ssize_t n = ::pread(file_.fd, to, left, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            refuse(path_, errno);
        if (n == 0)
            refuse(path_, "the file has become shorter while it was read");
        to += n;
        at += n;
        left -= static_cast<size_t>(n);
    }
}

bool MappedFile::changed() const noexcept {
    struct stat status {};
    return ::fstat(file_.fd, &status) != 0 || stamp_of(status) != opened_;
}

} // namespace muser
