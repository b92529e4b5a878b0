#pragma once

#include <string>
#include <string_view>

namespace baton {

// The name of a Host header: "[::1]:80" is "[::1]", and "localhost:80" is "localhost".
std::string_view HostWithoutPort(std::string_view host);

// Whether a Host header names a machine in a way that no page elsewhere can have for its own: an
// address, localhost or a name below it, or one below internal, a domain that the public DNS never
// has. A page under any other name can have that name mean this machine, and a browser then takes
// what answers here for the page's own server. True of an empty one, which no browser sends.
bool IsLocalHostName(std::string_view host);

// Why a request under `host` is refused; `remedy` says what to do beside asking by another name.
std::string HostRefusal(std::string_view host, std::string_view remedy);

}  // namespace baton
