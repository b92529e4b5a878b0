#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// A tensor of a safetensors file that is to be written.
struct TensorToWrite {
  std::string name;
  std::string dtype;  // as the format spells it: "BF16", "I32", …
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

// Writes a safetensors file from front to back: the header first, then the tensors' bytes in the
// order of the header, as they come to be. Not thread-safe.
class SafetensorsWriter final {
 public:
  // Begins the file and writes its header. UNAVAILABLE, with path and reason, when it cannot be.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<TensorToWrite>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Appends bytes of the tensor whose turn it is.
  absl::Status Write(std::span<const std::byte> bytes);
  // Brings the file to the disk. All bytes that the header promised have been written.
  absl::Status Close();
  // Bytes of tensors that have been written.
  int64_t written() const { return written_; }

 private:
  SafetensorsWriter(std::string path, int file, int64_t promised)
      : path_(std::move(path)), file_(file), promised_(promised) {}

  const std::string path_;
  int file_;
  const int64_t promised_;
  int64_t written_ = 0;
};

}  // namespace baton
