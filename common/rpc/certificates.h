#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/tls.h"
#include "grpcpp/security/tls_certificate_provider.h"

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

// Where gRPC takes the certificates of `tls` from, for servers and channels alike: one per process
// and set of files. The files are looked at every `tls.reload_every`. When they have changed and
// hold what can serve, connections made from then on use it, two seconds later at most; those that
// are there live on. When they cannot serve, what was read before stays in use, and the log says so
// once. The first call for `tls` reads the files, and fails where they cannot serve.
//
// Never let go of, because gRPC's channels may outlive whoever made them. Thread-safe.
absl::StatusOr<std::shared_ptr<grpc::experimental::CertificateProviderInterface>> CertificatesOf(
    const TlsOptions& tls);

}  // namespace baton
