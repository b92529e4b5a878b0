#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls.h"

namespace baton {

// What the three files hold.
struct Pems {
  std::string cert, key, ca;
  bool operator==(const Pems&) const = default;
};

// Reads the files, and refuses what cannot serve: what is no PEM or is cut off, a key of another
// certificate, an authority without a certificate. INVALID_ARGUMENT names the flag and the file.
absl::StatusOr<Pems> ReadPems(const TlsOptions& tls);
// The authority alone, for a client without a certificate.
absl::StatusOr<std::string> ReadAuthority(const TlsOptions& tls);

// What is in use of `tls` at the moment, for a server that does without gRPC. The files are watched
// once for it and for CertificatesOf (certificates.h), whose rules hold. Another object each time
// that something else is in use. Thread-safe.
using PemsInUse = std::function<std::shared_ptr<const Pems>()>;
absl::StatusOr<PemsInUse> WatchPems(const TlsOptions& tls);

}  // namespace baton
