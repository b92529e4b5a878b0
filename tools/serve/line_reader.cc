#include "tools/serve/line_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace baton {

std::vector<std::string> LineReader::Read(int fd, bool* at_end) {
  std::array<char, 16384> buffer{};
  while (pending_.size() < kMaxLine) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      *at_end = true;
      break;
    }
    pending_.append(buffer.data(), static_cast<size_t>(count));
  }
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = pending_.find('\n'); end != std::string::npos;
       end = pending_.find('\n', begin)) {
    lines.push_back(pending_.substr(begin, end - begin));
    begin = end + 1;
  }
  pending_.erase(0, begin);
  if (!pending_.empty() && (*at_end || pending_.size() >= kMaxLine)) {
    lines.push_back(std::move(pending_));
    pending_.clear();
  }
  return lines;
}

}  // namespace baton
