#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// One tensor of a checkpoint, row-major and little-endian. `data` points into the mapping of its
// file and may start at any address, so read elements with memcpy.
struct StoredTensor {
  std::string name;
  std::string dtype;           // as the file spells it: "F32", "F16", "BF16", "I64", …
  std::vector<int64_t> shape;  // outermost first; empty for a scalar
  std::span<const std::byte> data;
};

// One mapped .safetensors file. The header is validated before anything is believed: lengths,
// types and shapes agree, tensors cover the data without holes, overlaps or duplicate names.
// Immutable; all methods are thread-safe. The file must not change while it is open.
class SafetensorsFile final {
 public:
  // NOT_FOUND when absent; INVALID_ARGUMENT, naming file and defect, when it is not valid.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  // The tensors in the order of their data.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  // Null when there is no such tensor.
  const StoredTensor* Find(std::string_view name) const;
  const std::string& path() const { return path_; }
  // The JSON header as it stands in the file; part of the model fingerprint.
  std::string_view header() const;

 private:
  SafetensorsFile(std::string path, std::span<const std::byte> mapping)
      : path_(std::move(path)), mapping_(mapping) {}
  absl::Status ReadHeader();

  const std::string path_;
  const std::span<const std::byte> mapping_;
  size_t header_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;  // name -> position in tensors_
};

// All weights of a model directory: model.safetensors, or the shards that
// model.safetensors.index.json names. Immutable and thread-safe.
class CheckpointFiles final {
 public:
  // NOT_FOUND when there is neither file. Refuses an index that names a missing shard, a path
  // outside the directory, a tensor that its shard lacks, or that leaves a shard's tensor out.
  static absl::StatusOr<std::unique_ptr<CheckpointFiles>> Open(const std::string& model_dir);

  // Null when there is no such tensor.
  const StoredTensor* Find(std::string_view name) const;
  // Sorted by name.
  const std::vector<const StoredTensor*>& tensors() const { return tensors_; }
  // Sorted by path.
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  // The sum of the tensors' bytes.
  int64_t data_bytes() const { return data_bytes_; }

  // Starts reading the tensor's pages ahead.
  static void Prefetch(const StoredTensor& tensor);
  // Gives the tensor's pages back once it has been packed, so that a load holds one copy. Its data
  // stays readable.
  static void DropPages(const StoredTensor& tensor);

 private:
  CheckpointFiles() = default;
  absl::Status OpenShards(const std::string& model_dir, const std::string& index);
  void Index();

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<const StoredTensor*> tensors_;
  int64_t data_bytes_ = 0;
};

}  // namespace baton
