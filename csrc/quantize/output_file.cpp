#include "quantize/output_file.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/error.h"

namespace muser::quantize {

namespace {

std::atomic<unsigned> files_begun{0}; // two jobs of one process may write beside each other

} // namespace

OutputFile::OutputFile(const std::string &path) : path_(path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) // a rename would replace a device
        throw Error(ErrorCode::io, path + ": exists and is not a regular file", {{"path", path}, {"filename", path}});
    part_ = path + "." + std::to_string(::getpid()) + "-" + std::to_string(files_begun++) + ".part";
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0)
        fail(errno);
}

OutputFile::~OutputFile() {
    if (fd_ < 0)
        return;
    ::close(fd_);
    ::unlink(part_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR)
                continue;
            fail(errno);
        }
        size_ += static_cast<uint64_t>(written);
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
}

void OutputFile::finish() {
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) // some file systems cannot
        fail(errno);
    if (::rename(part_.c_str(), path_.c_str()) != 0)
        fail(errno);
    ::close(fd_);
    fd_ = -1;
}

bool OutputFile::same(const std::string &a, const std::string &b) {
    struct stat first {}, second {};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

void OutputFile::fail(int code) const {
    const std::string reason = std::generic_category().message(code);
    throw Error(ErrorCode::io, path_ + ": cannot be written: " + reason,
                {{"path", path_}, {"filename", path_}, {"errno", int64_t{code}}, {"strerror", reason}});
}

} // namespace muser::quantize
