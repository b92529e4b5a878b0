#include "common/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status SystemError(const std::string& path, int error) {
  const std::string message = OpenFailure(path, error, "give a file that can be read");
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

}  // namespace

bool IsThere(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0;
}

std::string OpenFailure(const std::string& path, int error, const std::string& advice) {
  std::error_code no_link;
  const std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
  if (error != ENOENT || no_link) return path + ": " + std::strerror(error) + "; " + advice;
  return path + " is a link to " + target.string() + ", where no file is; download it again";
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path,
                                                             const std::string& kind,
                                                             size_t least_bytes) {
  const FileDescriptor file(path);
  if (file.get() < 0) return SystemError(path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return SystemError(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(path + " is not a regular file; give a file");
  }
  if (info.st_size < static_cast<off_t>(least_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", info.st_size, " bytes, a ", kind,
                                                   " file at least ", least_bytes,
                                                   "; download it again"));
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return SystemError(path, errno);
  return std::unique_ptr<MappedFile>(
      new MappedFile(path, {static_cast<const std::byte*>(address), bytes}));
}

MappedFile::~MappedFile() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace baton
