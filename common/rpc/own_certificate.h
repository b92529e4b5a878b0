#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/rpc/tls.h"

namespace baton {

// Whether peers will know a process by its own certificate, asked before it serves, because a peer
// that refuses one says so in its own log only. All are OK without TLS, and INVALID_ARGUMENT says
// what is wrong, what was expected and what to do.
//
// The certificate must name each of `roles` ("router", "prefill", "decode") where its peers look,
// and must be allowed to do what the roles do: all answer, and all but a decode worker call too.
absl::Status CheckOwnRoles(const TlsOptions& tls, const std::vector<std::string_view>& roles);

// Whether processes that share the files of `tls` believe each other: the certificate comes from
// the authority, and is valid now.
absl::Status CheckOwnAuthority(const TlsOptions& tls);

}  // namespace baton
