#include "common/formats/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/rust/rust_face.h"

namespace baton {
namespace {

constexpr size_t kLengthBytes = 8;  // the header's length stands first

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
  const std::string message = path + ": " + std::strerror(error);
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

absl::StatusOr<std::span<const std::byte>> MapFile(const std::string& path) {
  const FileDescriptor file(path);
  if (file.get() < 0) return SystemError(path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return SystemError(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(path + " is not a regular file; give a file");
  }
  if (info.st_size < static_cast<off_t>(kLengthBytes)) {
    return absl::InvalidArgumentError(path + " has " + std::to_string(info.st_size) +
                                      " bytes, a safetensors file at least 10; download it again");
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return SystemError(path, errno);
  return std::span<const std::byte>(static_cast<const std::byte*>(address), bytes);
}

StoredTensor FromRow(const BatonTensor& row, std::span<const std::byte> file) {
  StoredTensor tensor;
  tensor.name = rust::ViewOf(row.name);
  tensor.dtype = rust::ViewOf(row.dtype);
  tensor.shape.assign(row.shape, row.shape + row.rank);
  tensor.data = file.subspan(row.begin, row.end - row.begin);
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::span<const std::byte> mapping, MapFile(path));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(path, mapping));
  BATON_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

absl::Status SafetensorsFile::ReadHeader() {
  BatonSafetensors* read = nullptr;
  BatonBuffer error;
  const BatonSlice bytes = {reinterpret_cast<const uint8_t*>(mapping_.data()), mapping_.size()};
  const BatonStatus status = baton_safetensors_read(bytes, &read, &error);
  if (status != BATON_OK) {
    const absl::Status failure = rust::TakeError(status, error);
    return absl::Status(failure.code(), path_ + " is not a valid safetensors file: " +
                                            std::string(failure.message()) + "; download it again");
  }
  const rust::Handle<BatonSafetensors, baton_safetensors_free> header(read);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, mapping_.data(), kLengthBytes);
  header_bytes_ = header_bytes;
  const size_t count = baton_safetensors_count(header.get());
  tensors_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const BatonTensor row = baton_safetensors_tensor(header.get(), i);
    if (row.begin > row.end || row.end > mapping_.size()) {
      return absl::InvalidArgumentError(path_ + ": tensor " + std::string(rust::ViewOf(row.name)) +
                                        " lies outside the file; download it again");
    }
    tensors_.push_back(FromRow(row, mapping_));
    index_.emplace(tensors_.back().name, i);
  }
  return absl::OkStatus();
}

const StoredTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(absl::string_view(name.data(), name.size()));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::string_view SafetensorsFile::header() const {
  return {reinterpret_cast<const char*>(mapping_.data()) + kLengthBytes, header_bytes_};
}

}  // namespace baton
