#include "common/rpc/credentials.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace baton {
namespace {

constexpr char kCommonName[] = "x509_common_name";
constexpr char kAlternativeName[] = "x509_subject_alternative_name";

absl::StatusOr<std::string> ReadPem(const std::string& path, const char* flag) {
  if (path.empty()) {
    return absl::InvalidArgumentError(std::string(flag) +
                                      " is missing; give --tls-cert, --tls-key and --tls-ca "
                                      "together, or none of them");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().find("-----BEGIN ") == std::string::npos) {
    return absl::InvalidArgumentError(std::string(flag) + " " + path +
                                      " cannot be read as PEM; check the path and its rights");
  }
  return text.str();
}

struct Pems {
  std::string cert, key, ca;
};

absl::StatusOr<Pems> ReadPems(const TlsOptions& tls) {
  Pems pems;
  struct Part {
    const std::string& path;
    const char* flag;
    std::string* out;
  };
  for (const Part& part :
       {Part{tls.cert_file, "--tls-cert", &pems.cert}, Part{tls.key_file, "--tls-key", &pems.key},
        Part{tls.ca_file, "--tls-ca", &pems.ca}}) {
    auto text = ReadPem(part.path, part.flag);
    if (!text.ok()) return text.status();
    *part.out = *std::move(text);
  }
  return pems;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  auto pems = ReadPems(tls);
  if (!pems.ok()) return pems.status();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pems->ca;
  options.pem_key_cert_pairs.push_back({pems->key, pems->cert});
  return grpc::SslServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  auto pems = ReadPems(tls);
  if (!pems.ok()) return pems.status();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = pems->ca;
  options.pem_private_key = pems->key;
  options.pem_cert_chain = pems->cert;
  return grpc::SslCredentials(options);
}

absl::Status CheckPeerRole(const grpc::AuthContext* context, bool tls, std::string_view role) {
  if (!tls) return absl::OkStatus();
  std::vector<std::string> names;
  if (context != nullptr) {
    for (const char* property : {kAlternativeName, kCommonName}) {
      for (const grpc::string_ref& value : context->FindPropertyValues(property)) {
        names.emplace_back(value.data(), value.size());
      }
    }
  }
  if (std::find(names.begin(), names.end(), role) != names.end()) return absl::OkStatus();
  std::string found;
  for (const std::string& name : names) found += (found.empty() ? "'" : ", '") + name + "'";
  return absl::PermissionDeniedError("the peer's certificate names " +
                                     (found.empty() ? std::string("nobody") : found) +
                                     "; this call is for the role '" + std::string(role) + "'");
}

}  // namespace baton
