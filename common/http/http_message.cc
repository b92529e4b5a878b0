#include "common/http/http_message.h"

#include "absl/strings/match.h"

namespace baton {

const std::string* HttpRequest::Find(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase({key.data(), key.size()}, {name.data(), name.size()})) return &value;
  }
  return nullptr;
}

std::vector<std::string> HttpRequest::FindAll(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase({key.data(), key.size()}, {name.data(), name.size()})) {
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace baton
