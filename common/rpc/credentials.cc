#include "common/rpc/credentials.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/certificates.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace baton {
namespace {

constexpr char kCommonName[] = "x509_common_name";
constexpr char kAlternativeName[] = "x509_subject_alternative_name";

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls, bool demand_certificate) {
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  auto certificates = CertificatesOf(tls);
  if (!certificates.ok()) return certificates.status();
  grpc::experimental::TlsServerCredentialsOptions options(*std::move(certificates));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(demand_certificate
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  if (tls.cert_file.empty() && tls.key_file.empty()) {
    BATON_ASSIGN_OR_RETURN(const std::string authority, ReadAuthority(tls));
    return grpc::SslCredentials(
        {.pem_root_certs = authority, .pem_private_key = "", .pem_cert_chain = ""});
  }
  auto certificates = CertificatesOf(tls);
  if (!certificates.ok()) return certificates.status();
  // The server's certificate is verified, its name too: gRPC's default.
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(*std::move(certificates));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

std::vector<std::string> PeerNames(const grpc::AuthContext* context) {
  std::vector<std::string> names;
  if (context == nullptr) return names;
  for (const char* property : {kAlternativeName, kCommonName}) {
    for (const grpc::string_ref& value : context->FindPropertyValues(property)) {
      names.emplace_back(value.data(), value.size());
    }
  }
  return names;
}

bool HasCertificate(const grpc::AuthContext* context) {
  return context != nullptr && !context->FindPropertyValues("x509_pem_cert").empty();
}

absl::Status CheckPeerRole(const grpc::AuthContext* context, bool tls, std::string_view role) {
  if (!tls) return absl::OkStatus();
  const std::vector<std::string> names = PeerNames(context);
  if (std::find(names.begin(), names.end(), role) != names.end()) return absl::OkStatus();
  std::string found;
  for (const std::string& name : names) found += (found.empty() ? "'" : ", '") + name + "'";
  return absl::PermissionDeniedError("the peer's certificate names " +
                                     (found.empty() ? std::string("nobody") : found) +
                                     "; this call is for the role '" + std::string(role) + "'");
}

}  // namespace baton
