#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

// A long text in pieces of about 64 KiB, so that it grows and moves without being copied as a
// whole.
class TextPieces final {
 public:
  void Append(std::string_view text);
  void Append(TextPieces text);

  size_t bytes() const { return bytes_; }
  // Gives the pieces away.
  std::vector<std::string> Take();

 private:
  std::vector<std::string> pieces_;
  size_t bytes_ = 0;
};

}  // namespace baton
