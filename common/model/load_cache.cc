#include "common/model/load_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/fnv128.h"
#include "common/base/status.h"
#include "common/model/fingerprint.h"
#include "common/model/load_cache_format.h"
#include "common/model/parallel_pieces.h"
#include "common/model/tensor_specs.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

// How many bytes are on their way from the disk while a tensor is packed.
constexpr int64_t kCacheReadAheadBytes = int64_t{256} << 20;

absl::Status Damaged(const std::string& path, const std::string& why) {
  return absl::DataLossError(absl::StrCat(path, ": ", why));
}

// Reads checksums of eight hexadecimal digits each.
bool ParseSums(const std::string& text, std::vector<uint32_t>& sums) {
  if (text.size() % load_cache::kSumDigits != 0) return false;
  for (size_t at = 0; at < text.size(); at += load_cache::kSumDigits) {
    const std::string digits = text.substr(at, load_cache::kSumDigits);
    if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
    sums.push_back(static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 16)));
  }
  return true;
}

}  // namespace

absl::StatusOr<LoadCacheKey> LoadCacheKey::Of(const CheckpointFiles& files,
                                              const std::string& fingerprint, kernels::DType dtype,
                                              int32_t rank, int32_t ranks) {
  Fnv128 hash;
  for (const std::string& path : files.paths()) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) {
      return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
    }
    const int64_t numbers[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    hash.Add(std::filesystem::path(path).filename().string());
    hash.Add(std::as_bytes(std::span(numbers)));
  }
  std::filesystem::path folder;
  if (!files.paths().empty()) {
    std::error_code error;
    folder = std::filesystem::path(files.paths()[0]).parent_path();
    const auto real = std::filesystem::canonical(folder.empty() ? "." : folder, error);
    if (!error) folder = real;
  }
  return LoadCacheKey{.fingerprint = fingerprint,
                      .checkpoint = hash.Hex(),
                      .dtype = dtype,
                      .rank = rank,
                      .ranks = ranks,
                      .folder = folder.string()};
}

std::string LoadCacheKey::FileName() const {
  return absl::StrCat(fingerprint, "-", std::string(kernels::Name(dtype)), "-tp", ranks, "-rank",
                      rank, ".v", load_cache::kVersion, ".safetensors");
}

std::string LoadCacheKey::Contents() const {
  return absl::StrCat("version ", load_cache::kVersion, ", reading ", load_cache::kReading,
                      ", model ", fingerprint, ", ", std::string(kernels::Name(dtype)), ", rank ",
                      rank, " of ", ranks);
}

std::string LoadCacheKey::Identity() const {
  return absl::StrCat(Contents(), ", files ", checkpoint);
}

absl::StatusOr<std::unique_ptr<LoadCacheReader>> LoadCacheReader::Open(const std::string& dir,
                                                                       const LoadCacheKey& key) {
  const std::string path = dir + "/" + key.FileName();
  auto file = SafetensorsFile::Open(path);
  if (absl::IsNotFound(file.status())) return file.status();
  if (!file.ok()) return Damaged(path, std::string(file.status().message()));
  auto reader = std::unique_ptr<LoadCacheReader>(new LoadCacheReader(std::move(file).value()));
  BATON_RETURN_IF_ERROR(reader->ReadMetadata(key));
  return reader;
}

absl::Status LoadCacheReader::ReadMetadata(const LoadCacheKey& key) {
  const auto header = nlohmann::json::parse(file_->header(), nullptr, /*allow_exceptions=*/false);
  const auto metadata = header.is_object() ? header.find("__metadata__") : header.end();
  const auto text = [&](const char* name) -> std::string {
    if (metadata == header.end() || !metadata->is_object()) return "";
    const auto entry = metadata->find(name);
    return entry != metadata->end() && entry->is_string() ? entry->get<std::string>() : "";
  };
  if (const std::string found = text(load_cache::kIdentity); found != key.Identity()) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), " holds '", found, "', expected '", key.Identity(), "'"));
  }
  if (!ParseSums(text(load_cache::kSums), sums_)) {
    return Damaged(file_->path(), "its list of checksums is no list of checksums");
  }
  size_t pieces = 0;
  for (const StoredTensor& tensor : file_->tensors()) {
    first_sum_.push_back(pieces);
    pieces += load_cache::Pieces(tensor.data.size());
    data_bytes_ += static_cast<int64_t>(tensor.data.size());
  }
  if (pieces == sums_.size()) return absl::OkStatus();
  return Damaged(file_->path(),
                 absl::StrCat("it has ", sums_.size(), " checksums for ", pieces, " pieces"));
}

void LoadCacheReader::ReadAhead(size_t index) {
  const auto tensors = file_->tensors();
  int64_t bytes = 0;
  for (size_t i = index; i < tensors.size() && bytes < kCacheReadAheadBytes; ++i) {
    bytes += static_cast<int64_t>(tensors[i].data.size());
    if (i < asked_) continue;
    CheckpointFiles::Prefetch(tensors[i]);
    asked_ = i + 1;
  }
}

absl::Status LoadCacheReader::Verify(const StoredTensor& tensor, size_t first_sum) const {
  std::atomic<bool> equal{true};
  ForEachPiece(load_cache::Pieces(tensor.data.size()), [&](size_t piece) {
    const auto bytes = load_cache::Piece(tensor.data, piece);
    if (base::Crc32c(bytes) != sums_[first_sum + piece]) equal = false;
  });
  if (equal) return absl::OkStatus();
  return Damaged(file_->path(), absl::StrCat("the checksum of ", tensor.name, " is wrong"));
}

absl::StatusOr<kernels::HostTensor> LoadCacheReader::Read(const std::string& name,
                                                          kernels::DType dtype, int64_t rows,
                                                          int64_t cols) {
  const StoredTensor* const tensor = file_->Find(name);
  if (tensor == nullptr) return Damaged(file_->path(), absl::StrCat("it lacks ", name));
  const auto found = TensorDType(*tensor);
  if (!found.ok() || *found != dtype || tensor->shape != std::vector<int64_t>{rows, cols}) {
    return Damaged(file_->path(), absl::StrCat(name, " is not ", rows, " x ", cols, " of ",
                                               std::string(kernels::Name(dtype))));
  }
  const auto index = static_cast<size_t>(tensor - file_->tensors().data());
  ReadAhead(index);
  BATON_RETURN_IF_ERROR(Verify(*tensor, first_sum_[index]));
  kernels::HostTensor read = {
      .data = tensor->data.data(), .dtype = dtype, .rows = rows, .cols = cols};
  if (reinterpret_cast<uintptr_t>(read.data) % SizeOf(dtype) == 0) return read;
  if (aligned_bytes_ < tensor->data.size()) {
    aligned_bytes_ = tensor->data.size();
    aligned_ = std::make_unique_for_overwrite<std::byte[]>(aligned_bytes_);
  }
  std::memcpy(aligned_.get(), tensor->data.data(), tensor->data.size());
  read.data = aligned_.get();
  return read;
}

void LoadCacheReader::Drop(const std::string& name) const {
  if (const StoredTensor* tensor = file_->Find(name)) CheckpointFiles::DropPages(*tensor);
}

}  // namespace baton
