#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/pems.h"
#include "common/rpc/tls.h"
#include "grpcpp/security/tls_certificate_provider.h"

namespace baton {

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
