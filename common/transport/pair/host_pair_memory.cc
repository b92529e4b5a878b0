#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/transport/pair/pair_memory.h"
#include "common/transport/pair/pair_parcel.h"
#include "kernels/block_checksum.h"

namespace baton {
namespace {

absl::Status MemoryError(const std::string& what) {
  return absl::UnavailableError(what + ": " + std::strerror(errno));
}

// A file in memory that several processes map.
struct MemoryFile {
  explicit MemoryFile(int number) : descriptor(number) {}
  ~MemoryFile() {
    if (descriptor >= 0) close(descriptor);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const int descriptor;
};

// All of a memory file, mapped into this process.
class Mapping final {
 public:
  static absl::StatusOr<std::unique_ptr<Mapping>> Make(const MemoryFile& file, int64_t bytes,
                                                       int protection) {
    void* const at =
        mmap(nullptr, static_cast<size_t>(bytes), protection, MAP_SHARED, file.descriptor, 0);
    if (at == MAP_FAILED) return MemoryError("cannot map staging buffers");
    return std::unique_ptr<Mapping>(new Mapping(static_cast<std::byte*>(at), bytes));
  }
  ~Mapping() { munmap(at_, static_cast<size_t>(bytes_)); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* at() const { return at_; }
  int64_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* at, int64_t bytes) : at_(at), bytes_(bytes) {}
  std::byte* const at_;
  const int64_t bytes_;
};

// A file as /proc shows it to processes of its user, and its inode, by which a number that was
// given to another file is told from it.
struct FileHandle {
  pid_t process = 0;
  int descriptor = 0;
  ino_t inode = 0;
};

absl::Status CheckFile(const MemoryFile& file, const FileHandle& handle, int64_t bytes) {
  struct stat info {};
  if (fstat(file.descriptor, &info) != 0) return MemoryError("the other process's memory");
  if (info.st_ino != handle.inode) {
    return absl::UnavailableError("the staging buffers of process " +
                                  std::to_string(handle.process) + " are not there any more");
  }
  if (bytes <= 0 || info.st_size < bytes) {
    return absl::DataLossError("the staging buffers of process " + std::to_string(handle.process) +
                               " have " + std::to_string(info.st_size) + " bytes, it said " +
                               std::to_string(bytes));
  }
  return absl::OkStatus();
}

class HostRing final : public MappedRing {
 public:
  explicit HostRing(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
  int64_t bytes() const override { return mapping_->bytes(); }
  absl::Status CopyOut(int64_t offset, int64_t count, std::byte* to) override {
    std::copy_n(mapping_->at() + offset, count, to);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Mapping> mapping_;
};

class HostPairMemory final : public PairMemory {
 public:
  HostPairMemory(std::unique_ptr<MemoryFile> file, std::unique_ptr<Mapping> mapping,
                 int64_t buffer_bytes)
      : file_(std::move(file)), mapping_(std::move(mapping)), buffer_bytes_(buffer_bytes) {}

  absl::Status BindThread() override { return absl::OkStatus(); }
  std::byte* buffer(int index) override { return mapping_->at() + index * buffer_bytes_; }
  int64_t ring_bytes() const override { return mapping_->bytes(); }
  absl::StatusOr<std::string> Export() override {
    struct stat info {};
    if (fstat(file_->descriptor, &info) != 0) return MemoryError("cannot export staging buffers");
    const FileHandle handle{getpid(), file_->descriptor, info.st_ino};
    return std::string(reinterpret_cast<const char*>(&handle), sizeof handle);
  }
  absl::StatusOr<std::unique_ptr<MappedRing>> Map(const std::string& bytes_of_handle,
                                                  int64_t bytes) override {
    FileHandle handle;
    if (bytes_of_handle.size() != sizeof handle) {
      return absl::InvalidArgumentError("a handle of " + std::to_string(bytes_of_handle.size()) +
                                        " bytes, expected " + std::to_string(sizeof handle) +
                                        ": the other worker's KV is not in host memory");
    }
    std::memcpy(&handle, bytes_of_handle.data(), sizeof handle);
    const std::string path =
        "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
    const MemoryFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.descriptor < 0) return MemoryError("cannot open staging buffers at " + path);
    BATON_RETURN_IF_ERROR(CheckFile(file, handle, bytes));
    BATON_ASSIGN_OR_RETURN(auto mapping, Mapping::Make(file, bytes, PROT_READ));
    return std::make_unique<HostRing>(std::move(mapping));
  }
  DeviceStream stream() override { return nullptr; }

  absl::StatusOr<std::vector<uint64_t>> Gather(int index, std::span<const SourcePart> sources,
                                               std::span<const int64_t> offsets,
                                               bool sums) override {
    std::vector<uint64_t> result;
    for (size_t i = 0; i < sources.size(); ++i) {
      std::byte* const to = buffer(index) + offsets[i];
      const size_t bytes = SizeOf(sources[i].bytes);
      CopyParts(sources[i].bytes, {{to, bytes}});
      if (sums) result.push_back(kernels::BlockChecksum(to, bytes));
    }
    return result;
  }
  absl::Status Clear(int index, int64_t bytes) override {
    std::fill_n(buffer(index), bytes, std::byte{0});
    return absl::OkStatus();
  }
  absl::Status WriteHeader(int index, const std::string& header) override {
    std::ranges::copy(std::as_bytes(std::span(header)), buffer(index));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ReadHeader(int index) override {
    return std::string(reinterpret_cast<const char*>(buffer(index)), kParcelHeaderBytes);
  }
  absl::StatusOr<std::vector<uint64_t>> Scatter(int index, std::span<const ScatterPart> parts,
                                                bool sums) override {
    std::vector<uint64_t> result;
    for (const ScatterPart& part : parts) {
      const std::span<std::byte> staged(buffer(index) + part.from, SizeOf(part.to));
      CopyParts({staged}, part.to);
      if (sums) result.push_back(SumOfBlock(part.to, staged));
    }
    return result;
  }
  absl::Status Mark(int) override { return absl::OkStatus(); }
  absl::StatusOr<bool> Reached(int) override { return true; }

 private:
  // The checksum of what stands in the places of a part. Several are joined in `staged` for it.
  static uint64_t SumOfBlock(const ByteParts& places, std::span<std::byte> staged) {
    if (places.size() == 1) return kernels::BlockChecksum(places[0].data(), places[0].size());
    CopyParts({places.begin(), places.end()}, {staged});
    return kernels::BlockChecksum(staged.data(), staged.size());
  }

  const std::unique_ptr<MemoryFile> file_;
  const std::unique_ptr<Mapping> mapping_;
  const int64_t buffer_bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PairMemory>> MakeHostPairMemory(int buffers, int64_t buffer_bytes) {
  auto file = std::make_unique<MemoryFile>(memfd_create("baton-kv-staging", MFD_CLOEXEC));
  if (file->descriptor < 0 || ftruncate(file->descriptor, buffers * buffer_bytes) != 0) {
    return MemoryError("cannot make staging buffers of " + std::to_string(buffers * buffer_bytes) +
                       " bytes");
  }
  BATON_ASSIGN_OR_RETURN(auto mapping,
                         Mapping::Make(*file, buffers * buffer_bytes, PROT_READ | PROT_WRITE));
  return std::make_unique<HostPairMemory>(std::move(file), std::move(mapping), buffer_bytes);
}

}  // namespace baton
