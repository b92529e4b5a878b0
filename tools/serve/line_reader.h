#pragma once

#include <string>
#include <vector>

namespace baton {

// Cuts what comes from a file descriptor that does not block into whole lines.
class LineReader {
 public:
  // The lines that are complete now, without their newlines. At the end of the file, what is left
  // is the last line and `*at_end` becomes true. A line beyond 64 KiB comes in pieces.
  std::vector<std::string> Read(int fd, bool* at_end);

 private:
  static constexpr size_t kMaxLine = 64 << 10;
  std::string pending_;
};

}  // namespace baton
