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
#include "common/formats/gguf/gguf_types.h"
#include "common/formats/mapped_file.h"
#include "nlohmann/json.hpp"

namespace baton {

// Whether a model is named by its GGUF file, and not by a directory.
bool IsGgufPath(const std::string& model);

// A name out of a file, which may be any bytes of any length, as messages show it.
std::string ShownGgufName(std::string_view name);

// The types of metadata, as the format numbers them.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// One entry of the metadata: a value, or an array of values of one type. Views point into the file.
struct GgufValue {
  std::string_view key;
  GgufValueType type = GgufValueType::kUint8;  // of the elements of an array
  bool array = false;
  uint64_t count = 1;               // elements of an array
  std::span<const std::byte> data;  // of the elements
};

// One tensor, with the name that it has in the file.
struct GgufTensor {
  std::string_view name;
  const GgufTensorType* type = nullptr;  // readable
  std::vector<int64_t> shape;            // outermost first, as everywhere but in the file
  std::span<const std::byte> data;
};

// One mapped GGUF file of version 2 or 3. All of its header is validated before anything is
// believed: counts, lengths, types and keys; tensors have blocks that fill their rows, lie inside
// the file and do not overlap. Immutable; all methods are thread-safe. The file must not change
// while it is open.
class GgufFile final {
 public:
  // NOT_FOUND when absent. INVALID_ARGUMENT, naming file and defect, for what is no valid GGUF
  // file, for one part of a split one, and for tensors of a type that is not readable.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  // All bytes before the tensors' data.
  std::string_view header() const { return header_; }
  std::span<const GgufValue> metadata() const { return metadata_; }
  // In the order of the header.
  std::span<const GgufTensor> tensors() const { return tensors_; }

  // Null when there is none of that name.
  const GgufValue* Find(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;

  // The metadata as a JSON object with a member for each key: values, and arrays of up to 4096
  // numbers; other arrays are left out.
  nlohmann::json Scalars() const;
  // INVALID_ARGUMENT, naming it, where the file has one of `keys` as an array that Scalars leaves
  // out: who reads that would take it for absent.
  absl::Status CheckScalars(std::span<const std::string_view> keys) const;
  // An array of strings, or of numbers; empty where the key is absent. INVALID_ARGUMENT where it is
  // anything else.
  absl::StatusOr<std::vector<std::string_view>> Strings(std::string_view key) const;
  absl::StatusOr<std::vector<double>> Numbers(std::string_view key) const;

  // The error that this file, for which `what` says why, is not what it should be.
  absl::Status Refuse(const std::string& what) const;

 private:
  explicit GgufFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}
  absl::Status ReadHeader();
  absl::Status PlaceTensors(std::span<const uint64_t> offsets);

  const std::unique_ptr<MappedFile> file_;
  std::string_view header_;
  std::vector<GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  absl::flat_hash_map<std::string_view, size_t> keys_;   // key -> position in metadata_
  absl::flat_hash_map<std::string_view, size_t> names_;  // name -> position in tensors_
};

}  // namespace baton
