#include "tools/client/no_server.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// `why` is what gRPC says of its last try to connect.
std::string WhatToDo(const std::string& why, const AddressWords& words) {
  if (absl::StrContains(why, "Hostname Verification Check failed")) {
    return absl::StrCat("its certificate names another role; ", std::string(words.other_role));
  }
  if (absl::StrContains(why, "handshake failed")) {
    return "correct --tls-cert, --tls-key and --tls-ca, as docs/tls.md shows";
  }
  // So a server with TLS does to whoever speaks none or has no certificate.
  if (absl::StrContains(why, "Socket closed") || absl::StrContains(why, "Connection reset")) {
    return "somebody listens there; if it is a server with TLS, give --tls-ca, and --tls-cert with "
           "--tls-key, as docs/tls.md shows";
  }
  return absl::StrCat("start a server there, as `baton serve DIR` does, or name another ",
                      std::string(words.named_by));
}

}  // namespace

absl::Status ExplainNoServer(const absl::Status& status, const std::string& address,
                             const AddressWords& words) {
  // A reason is a server's word; without one it was gRPC that could not reach it.
  if (!absl::IsUnavailable(status) || ReasonOf(status) != Reason::kNone) return status;
  const std::string why(status.message().data(), status.message().size());
  return absl::UnavailableError(
      absl::StrCat("no answer from ", address, " (", why, "); ", WhatToDo(why, words)));
}

}  // namespace baton
