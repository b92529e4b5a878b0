#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/model/load_cache.h"
#include "common/model/load_cache_format.h"
#include "common/model/parallel_pieces.h"

namespace baton {
namespace {

constexpr size_t kLengthBytes = 8;  // of a safetensors file, before its header
constexpr size_t kDataAlignment = 64;
constexpr char kTemporary[] = ".tmp.";

// What of a tensor's entry does not grow with it: names, shape and offsets are shorter.
constexpr size_t kEntryBytes = 256;

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
}

std::string StoredName(kernels::DType dtype) {
  if (dtype == kernels::DType::kF32) return "F32";
  return dtype == kernels::DType::kBF16 ? "BF16" : "F16";
}

// Files that a process left when it was killed: nobody holds their lock.
void RemoveAbandoned(const std::string& dir, const std::string& name) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with(name + kTemporary)) continue;
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(file);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadCacheWriter>> LoadCacheWriter::Create(const std::string& dir,
                                                                         const LoadCacheKey& key,
                                                                         size_t tensors,
                                                                         int64_t bytes) {
  static std::atomic<int> writers{0};
  RemoveAbandoned(dir, key.FileName());
  const std::string path = dir + "/" + key.FileName();
  const std::string temporary = absl::StrCat(path, kTemporary, getpid(), ".", writers.fetch_add(1));
  const int file = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return CannotWrite(temporary, errno);
  (void)flock(file, LOCK_EX | LOCK_NB);
  const size_t pieces = tensors + load_cache::Pieces(static_cast<size_t>(bytes));
  size_t header = 2 * kEntryBytes + tensors * kEntryBytes + pieces * load_cache::kSumDigits;
  header = (kLengthBytes + header + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  return std::unique_ptr<LoadCacheWriter>(
      new LoadCacheWriter(path, temporary, key.Identity(), file, header - kLengthBytes));
}

LoadCacheWriter::~LoadCacheWriter() {
  if (!committed_) unlink(temporary_.c_str());
  close(file_);
}

absl::Status LoadCacheWriter::Write(const void* data, size_t bytes, int64_t offset) const {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(file_, from, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return CannotWrite(temporary_, written < 0 ? errno : ENOSPC);
    from += written;
    bytes -= static_cast<size_t>(written);
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status LoadCacheWriter::Add(const std::string& name, const kernels::HostTensor& tensor) {
  const size_t bytes = static_cast<size_t>(tensor.rows * tensor.cols) * SizeOf(tensor.dtype);
  const std::span<const std::byte> data(static_cast<const std::byte*>(tensor.data), bytes);
  std::vector<uint32_t> sums(load_cache::Pieces(bytes));
  ForEachPiece(sums.size(), [&](size_t i) { sums[i] = base::Crc32c(load_cache::Piece(data, i)); });
  for (const uint32_t sum : sums) absl::StrAppendFormat(&sums_, "%08x", sum);
  BATON_RETURN_IF_ERROR(
      Write(tensor.data, bytes, static_cast<int64_t>(kLengthBytes + header_bytes_) + data_bytes_));
  const int64_t end = data_bytes_ + static_cast<int64_t>(bytes);
  absl::StrAppend(&entries_, "\"", name, "\":{\"dtype\":\"", StoredName(tensor.dtype),
                  "\",\"shape\":[", tensor.rows, ",", tensor.cols, "],\"data_offsets\":[",
                  data_bytes_, ",", end, "]},");
  data_bytes_ = end;
  return absl::OkStatus();
}

// Nothing waits for the disk here: what a power failure tears apart, the checksums show.
absl::Status LoadCacheWriter::Commit() {
  std::string header =
      absl::StrCat("{", entries_, "\"__metadata__\":{\"", load_cache::kIdentity, "\":\"", identity_,
                   "\",\"", load_cache::kSums, "\":\"", sums_, "\"}}");
  if (header.size() > header_bytes_) {
    return absl::InternalError(absl::StrCat("the header of ", path_, " has ", header.size(),
                                            " bytes, room was left for ", header_bytes_));
  }
  header.resize(header_bytes_, ' ');
  const uint64_t length = header_bytes_;
  BATON_RETURN_IF_ERROR(Write(&length, sizeof(length), 0));
  BATON_RETURN_IF_ERROR(Write(header.data(), header.size(), kLengthBytes));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return CannotWrite(path_, errno);
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace baton
