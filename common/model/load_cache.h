#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"
#include "kernels/tensor_view.h"

namespace baton {

// A load cache is a file with a checkpoint as one rank packs it: its matrices and vectors are
// already divided, joined and converted, so that a later load only reads. A file is named by its
// key, appears whole or not at all, and is believed only as far as its checksums hold.

// What decides the contents of a file.
struct LoadCacheKey {
  std::string fingerprint;  // ModelFingerprint
  std::string checkpoint;   // names, sizes and times of the checkpoint's files
  kernels::DType dtype = kernels::DType::kF32;
  int32_t rank = 0;
  int32_t ranks = 1;
  std::string folder = {};  // of the checkpoint, without links; only some names have it

  static absl::StatusOr<LoadCacheKey> Of(const CheckpointFiles& files,
                                         const std::string& fingerprint, kernels::DType dtype,
                                         int32_t rank, int32_t ranks);
  std::string FileName() const;
  // What the weights are, whichever copy of the checkpoint they come from, and the versions of the
  // format and of how checkpoints are read.
  std::string Contents() const;
  // Contents and the copy, in the words in which the file repeats it.
  std::string Identity() const;
};

// Reads the tensors of a load cache's file. Not thread-safe.
class LoadCacheReader final {
 public:
  // NOT_FOUND where there is none; FAILED_PRECONDITION where it holds something else than `key`
  // says; DATA_LOSS where it is damaged.
  static absl::StatusOr<std::unique_ptr<LoadCacheReader>> Open(const std::string& dir,
                                                               const LoadCacheKey& key);

  // Returns a tensor, which is valid until the next call. DATA_LOSS, naming it, where its checksums
  // do not hold.
  absl::StatusOr<kernels::HostTensor> Read(const std::string& name, kernels::DType dtype,
                                           int64_t rows, int64_t cols);
  // Gives the pages of a tensor back to the system.
  void Drop(const std::string& name) const;
  int64_t data_bytes() const { return data_bytes_; }

 private:
  explicit LoadCacheReader(std::unique_ptr<SafetensorsFile> file) : file_(std::move(file)) {}
  absl::Status ReadMetadata(const LoadCacheKey& key);
  absl::Status Verify(const StoredTensor& tensor, size_t first_sum) const;
  // Asks the system to read some of what comes after tensor `index` from the disk.
  void ReadAhead(size_t index);

  const std::unique_ptr<SafetensorsFile> file_;
  std::vector<uint32_t> sums_;     // of all pieces of all tensors, in the order of the data
  std::vector<size_t> first_sum_;  // [tensors]
  size_t asked_ = 0;               // tensors that ReadAhead has asked for
  int64_t data_bytes_ = 0;
  std::unique_ptr<std::byte[]> aligned_;
  size_t aligned_bytes_ = 0;
};

// Writes a load cache's file under another name, and renames it when it is whole. Not thread-safe.
class LoadCacheWriter final {
 public:
  // Begins a file for up to `tensors` tensors of `bytes` together. ABORTED while another process or
  // thread writes the same file, UNAVAILABLE when it cannot be written or locked.
  static absl::StatusOr<std::unique_ptr<LoadCacheWriter>> Create(const std::string& dir,
                                                                 const LoadCacheKey& key,
                                                                 size_t tensors, int64_t bytes);
  // A file that was not committed leaves nothing behind.
  ~LoadCacheWriter();
  LoadCacheWriter(const LoadCacheWriter&) = delete;
  LoadCacheWriter& operator=(const LoadCacheWriter&) = delete;

  // UNAVAILABLE, with path and reason, when it cannot be written, as on a full disk.
  absl::Status Add(const std::string& name, const kernels::HostTensor& tensor);
  absl::Status Commit();
  const std::string& path() const { return path_; }

 private:
  LoadCacheWriter(std::string path, std::string temporary, std::string identity, int file,
                  size_t header_bytes)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        identity_(std::move(identity)),
        file_(file),
        header_bytes_(header_bytes) {}
  absl::Status Write(const void* data, size_t bytes, int64_t offset) const;

  const std::string path_;
  const std::string temporary_;
  const std::string identity_;
  int file_;
  const size_t header_bytes_;  // of the JSON, padded
  std::string entries_;        // of the JSON, each with a comma behind it
  std::string sums_;           // eight hexadecimal digits for each piece
  int64_t data_bytes_ = 0;
  bool committed_ = false;
};

}  // namespace baton
