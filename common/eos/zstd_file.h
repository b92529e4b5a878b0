#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Files that hold one zstd frame (RFC 8878) with a checksum, or several behind each other.
namespace baton {

// Writes the content of `from` compressed to `to`, which is on the disk when this returns OK; else
// nothing is there. The time of the last write is kept. Asks `stop` after each piece of a megabyte,
// and is CANCELLED once it says so.
absl::Status CompressFile(const std::string& from, const std::string& to,
                          const std::function<bool()>& stop);

// Gives the content of a compressed file, piece by piece. Not thread-safe.
class ZstdReader final {
 public:
  // `fd` stays the caller's; `path` is for messages.
  ZstdReader(int fd, std::string path);
  ~ZstdReader();

  // Whether bytes begin as a frame does.
  static bool IsFrame(const char* bytes, size_t size);

  // How many bytes it wrote to `to`, at least 1; 0 at the end. DATA_LOSS for a file that was cut
  // off or damaged, once all that can be read before that place was given.
  absl::StatusOr<size_t> Read(char* to, size_t room);

 private:
  struct State;
  absl::StatusOr<bool> Refill();

  const int fd_;
  const std::string path_;
  const std::unique_ptr<State> state_;
};

}  // namespace baton
