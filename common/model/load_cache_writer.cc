#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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
constexpr char kTemporary[] = ".tmp";
// How often the temporary file may be moved or removed by another writer while it is being opened.
constexpr int kTries = 16;

// Room for the part of a tensor's entry that does not grow with it; names, shape and offsets are
// shorter.
constexpr size_t kEntryBytes = 256;

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
}

std::string StoredName(kernels::DType dtype) {
  if (dtype == kernels::DType::kF32) return "F32";
  return dtype == kernels::DType::kBF16 ? "BF16" : "F16";
}

absl::Status WrittenByAnother(const std::string& path) {
  return absl::AbortedError(absl::StrCat(path, " is being written by another load"));
}

// Whether `path` names the open `file`. Its former writer may have moved it to its place, or
// removed it, before the lock was ours.
bool IsAt(int file, const std::string& path) {
  struct stat open_file = {};
  struct stat at_path = {};
  return fstat(file, &open_file) == 0 && stat(path.c_str(), &at_path) == 0 &&
         open_file.st_dev == at_path.st_dev && open_file.st_ino == at_path.st_ino;
}

// Opens the file and takes its lock, which whoever writes it holds until it is moved or removed. A
// file that nobody holds was left by a process that was killed, and is taken over.
absl::StatusOr<int> OpenLocked(const std::string& path) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return CannotWrite(path, errno);
    absl::Status locked;
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      locked = errno == EWOULDBLOCK
                   ? WrittenByAnother(path)
                   : CannotWrite(absl::StrCat(path, ": it cannot be locked"), errno);
    } else if (IsAt(file, path)) {
      if (ftruncate(file, 0) == 0) return file;
      locked = CannotWrite(path, errno);
    }
    close(file);
    BATON_RETURN_IF_ERROR(locked);
  }
  return WrittenByAnother(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadCacheWriter>> LoadCacheWriter::Create(const std::string& dir,
                                                                         const LoadCacheKey& key,
                                                                         size_t tensors,
                                                                         int64_t bytes) {
  const std::string path = dir + "/" + key.FileName();
  const std::string temporary = path + kTemporary;
  BATON_ASSIGN_OR_RETURN(const int file, OpenLocked(temporary));
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
