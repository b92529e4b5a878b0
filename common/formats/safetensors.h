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
#include "common/formats/mapped_file.h"

namespace baton {

class GgufFile;

// One tensor of a checkpoint, row-major and little-endian. `data` points into the mapping of its
// file and may start at any address, so read elements with memcpy.
struct StoredTensor {
  std::string name;
  std::string dtype;           // as the file spells it: "F32", "F16", "BF16", "I64", "Q8_0", …
  std::vector<int64_t> shape;  // outermost first; empty for a scalar
  std::span<const std::byte> data;
  // How many rows a head has, where the rows of its two halves alternate, as in GGUF's queries and
  // keys of Llama. 0: rows are in order.
  int64_t head_rows = 0;

  // Where row `row` of the weight lies.
  int64_t StoredRow(int64_t row) const {
    if (head_rows == 0) return row;
    const int64_t inside = row % head_rows;
    const int64_t half = head_rows / 2;
    return row - inside + inside % half * 2 + inside / half;
  }
};

// One mapped .safetensors file. The header is validated before anything is believed: lengths,
// types and shapes agree, tensors cover the data without holes, overlaps or duplicate names.
// Immutable; all methods are thread-safe. The file must not change while it is open.
class SafetensorsFile final {
 public:
  // NOT_FOUND when absent; INVALID_ARGUMENT, naming file and defect, when it is not valid.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  // The tensors in the order of their data.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  // Null when there is no such tensor.
  const StoredTensor* Find(std::string_view name) const;
  const std::string& path() const { return file_->path(); }
  // The JSON header as it stands in the file; part of the model fingerprint.
  std::string_view header() const;

 private:
  explicit SafetensorsFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}
  absl::Status ReadHeader();
  std::span<const std::byte> bytes() const { return file_->bytes(); }

  const std::unique_ptr<MappedFile> file_;
  size_t header_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;  // name -> position in tensors_
};

// All weights of a model: model.safetensors of its directory, the shards that
// model.safetensors.index.json names, or a GGUF file. Immutable and thread-safe.
class CheckpointFiles final {
 public:
  // `model` is a directory or a GGUF file. NOT_FOUND when there is no such file. Refuses an index
  // that names a missing shard, a path outside the directory, a tensor that its shard lacks, or
  // that leaves a shard's tensor out; and what GgufFile refuses.
  static absl::StatusOr<std::unique_ptr<CheckpointFiles>> Open(const std::string& model);
  ~CheckpointFiles();

  // Null when there is no such tensor. Tensors of a GGUF file have the names of their safetensors.
  const StoredTensor* Find(std::string_view name) const;
  // Sorted by name.
  const std::vector<const StoredTensor*>& tensors() const { return tensors_; }
  // The safetensors files, sorted by path; none of a GGUF file.
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  std::vector<std::string> paths() const;  // of all files
  // The headers of all files, and a GGUF file's factors of the rotation, which are no weights.
  std::vector<std::string_view> headers() const;
  // The sum of the tensors' bytes.
  int64_t data_bytes() const { return data_bytes_; }

  // What a person knows `name` by: the name that it has, or would have, in these files.
  std::string NameInFile(const std::string& name) const;
  // What tells the shape of the model, for messages: "config.json", or "its metadata".
  const char* described_by() const { return gguf_ != nullptr ? "its metadata" : "config.json"; }

  // Starts reading the tensor's pages ahead.
  static void Prefetch(const StoredTensor& tensor);
  // Gives the tensor's pages back once it has been packed, so that a load holds one copy. Its data
  // stays readable.
  static void DropPages(const StoredTensor& tensor) { DropPages(tensor.data); }
  // The same for a part of a tensor.
  static void DropPages(std::span<const std::byte> data);

 private:
  CheckpointFiles();
  absl::Status OpenShards(const std::string& model_dir, const std::string& index);
  absl::Status OpenGguf(const std::string& path);
  void Index();

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::unique_ptr<GgufFile> gguf_;
  std::vector<StoredTensor> gguf_tensors_;
  std::vector<const StoredTensor*> tensors_;
  int64_t data_bytes_ = 0;
};

}  // namespace baton
