#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/http/http_message.h"

namespace baton {

// The first lines of an answer, up to and with the empty one.
struct ReplyHead {
  int status = 200;
  const HttpHeaders& headers;
  std::optional<size_t> content_length;  // empty: none is said
  bool chunked = false;
  bool keep_alive = true;
  bool http_1_0 = false;
  double unix_now = 0;  // seconds, for Date
};

// Control characters in values become spaces: line breaks would begin headers of their own, and
// clients refuse an answer for the others.
std::string HeadText(const ReplyHead& head);
// `bytes`, not empty, as one chunk of a chunked body.
std::string ChunkText(std::string_view bytes);
// What ends a chunked body.
std::string LastChunkText();

}  // namespace baton
