#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace baton {

// Whether something stands under this path, be it a link that leads nowhere: that is a file which
// is damaged, and not one which is absent.
bool IsThere(const std::string& path);

// Why a path cannot be opened, and what to do: `advice`, or, of a link that leads nowhere, to get
// what it leads to. `error` is errno.
std::string OpenFailure(const std::string& path, int error, const std::string& advice);

// A regular file, mapped for reading. It must not change while it is open. Immutable and
// thread-safe.
class MappedFile final {
 public:
  // NOT_FOUND when absent; INVALID_ARGUMENT for what is no regular file, or has fewer than
  // `least_bytes`, which is the least that a file of `kind` ("safetensors") can have.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path,
                                                          const std::string& kind,
                                                          size_t least_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  const std::string path_;
  const std::span<const std::byte> bytes_;
};

}  // namespace baton
