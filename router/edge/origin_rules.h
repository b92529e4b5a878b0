#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// Which pages may ask this router from a browser: its own page on the admin port, and those of
// origins that are listed ("https://chat.example.org"; "*" is all). Thread-safe.
class OriginRules final {
 public:
  explicit OriginRules(std::vector<std::string> listed) : listed_(std::move(listed)) {}

  // The admin port; until it is known its page is none of ours.
  void SetPagePort(int port) { page_port_ = port; }
  // `origin` is the page's, as browsers send it; `host` is what was asked, name and port.
  bool Allows(std::string_view origin, std::string_view host) const;
  // Whether a listed page has that name, or any may ask: then it may also ask under its own name.
  bool Lists(std::string_view host) const;

 private:
  const std::vector<std::string> listed_;
  std::atomic<int> page_port_{0};
};

}  // namespace baton
