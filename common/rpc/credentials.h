#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/tls.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"

namespace baton {

// Plain text without TLS options. With them a server takes client certificates of the same CA only,
// and none at all where they are not demanded; both sides use files that were replaced from the
// next connection on (certificates.h). A channel that has nothing but the authority shows no
// certificate, and reads that file once.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls, bool demand_certificate = true);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls);

// The names in the certificate that the peer of a call showed: its subject alternative names in
// their order, then its common name. Empty without a certificate.
std::vector<std::string> PeerNames(const grpc::AuthContext* context);
// Whether the peer showed a certificate at all.
bool HasCertificate(const grpc::AuthContext* context);

// Whether the peer of a call holds a certificate of `role`. OK on a connection without TLS, which
// only --insecure or loopback allow; PERMISSION_DENIED names what was found and what was expected.
absl::Status CheckPeerRole(const grpc::AuthContext* context, bool tls, std::string_view role);

}  // namespace baton
