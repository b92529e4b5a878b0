#include "common/http/local_host.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/ip/address.hpp"
#include "common/base/shown_text.h"

namespace baton {
namespace {

constexpr size_t kMostShown = 100;

bool IsAddress(std::string_view name) {
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(name), error);
  return !error;
}

}  // namespace

std::string_view HostWithoutPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  if (colon == std::string_view::npos) return host;
  return bracket != std::string_view::npos && bracket > colon ? host : host.substr(0, colon);
}

bool IsLocalHostName(std::string_view host) {
  const std::string_view given = HostWithoutPort(host);
  if (given.empty() || IsAddress(given)) return true;
  std::string name = absl::AsciiStrToLower({given.data(), given.size()});
  if (name.ends_with('.')) name.pop_back();
  return name == "localhost" || name.ends_with(".localhost") || name.ends_with(".internal");
}

std::string HostRefusal(std::string_view host, std::string_view remedy) {
  return absl::StrCat("the Host '", ShownText(host, kMostShown),
                      "' may be the name of a page elsewhere, made to mean this machine; ask by an "
                      "IP address or localhost",
                      std::string(remedy));
}

}  // namespace baton
