#include "common/rpc/own_certificate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/certificates.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "openssl/x509_vfy.h"
#include "openssl/x509v3.h"

namespace baton {
namespace {

using OwnedX509 = std::unique_ptr<X509, decltype(&X509_free)>;
using X509Store = std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)>;

// The names in a certificate, each where peers look for it.
struct CertificateNames {
  std::vector<std::string> dns;    // subject alternative names of the type DNS
  std::vector<std::string> other;  // of other types
  std::string common;
};

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string IpTextOf(const ASN1_OCTET_STRING* ip) {
  const int bytes = ASN1_STRING_length(ip);
  if (bytes != 4 && bytes != 16) return "no IP address";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(ip), text, sizeof(text));
  return text;
}

CertificateNames NamesOf(X509* certificate) {
  CertificateNames names;
  auto* const list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(list, i);
    if (name->type == GEN_DNS) names.dns.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_IPADD) names.other.push_back(IpTextOf(name->d.iPAddress));
    if (name->type == GEN_URI) {
      names.other.push_back(TextOf(name->d.uniformResourceIdentifier));
    }
  }
  GENERAL_NAMES_free(list);
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) names.common = TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  return names;
}

// A process that is called is known by a DNS name, or where there is none by its common name.
// Clients without certificates, who call routers only, take the common name only where nothing else
// is named.
bool IsKnownAs(const CertificateNames& names, std::string_view role) {
  const auto in = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), role) != list.end();
  };
  if (in(names.dns)) return true;
  return names.common == role && names.dns.empty() && (role != "router" || names.other.empty());
}

std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "'", name, "'");
  });
}

std::string Shown(const CertificateNames& names) {
  std::vector<std::string> all = names.dns;
  all.insert(all.end(), names.other.begin(), names.other.end());
  const std::string common =
      names.common.empty() ? "" : absl::StrCat("'", names.common, "' as its common name");
  if (all.empty()) return common.empty() ? "nobody" : common;
  return Quoted(all) + (common.empty() ? "" : absl::StrCat(" and ", common));
}

absl::Status NoRole(const TlsOptions& tls, const CertificateNames& names,
                    const std::vector<std::string>& missing) {
  const bool one = missing.size() == 1;
  std::string alternatives;
  for (const std::string& role : missing) {
    absl::StrAppend(&alternatives, alternatives.empty() ? "" : ",", "DNS:", role);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--tls-cert ", tls.cert_file, " names ", Shown(names), ", but not the role",
                   one ? " " : "s ", Quoted(missing), ", by which",
                   " the other processes know their peer; issue a certificate that has ",
                   alternatives, " among its subject alternative names, as docs/tls.md shows"));
}

// The certificates in `pem`, of which ReadPems has seen that there is one.
std::vector<OwnedX509> AllIn(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::vector<OwnedX509> all;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    all.emplace_back(next, X509_free);
  }
  ERR_clear_error();  // OpenSSL's list of errors is the thread's, and read by others too
  BATON_CHECK(!all.empty());
  return all;
}

absl::Status CheckPurpose(const TlsOptions& tls, X509* certificate, bool calls) {
  const char* lacks = nullptr;
  if (calls && X509_check_purpose(certificate, X509_PURPOSE_SSL_CLIENT, 0) != 1) {
    lacks = "clientAuth";
  }
  if (X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) != 1) lacks = "serverAuth";
  if (lacks == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--tls-cert ", tls.cert_file, " may not be used as ", lacks,
      ", which its process needs among its extended key usages; issue a certificate with "
      "serverAuth and clientAuth, or without that extension"));
}

// Why the authority does not vouch for the first certificate of `pems`; empty when it does.
std::string Doubt(const Pems& pems) {
  const X509Store store(X509_STORE_new(), X509_STORE_free);
  for (const OwnedX509& root : AllIn(pems.ca)) X509_STORE_add_cert(store.get(), root.get());
  // As gRPC has it: an intermediate authority may stand alone in the file.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  const std::vector<OwnedX509> chain = AllIn(pems.cert);
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> rest(
      sk_X509_new_null(), [](STACK_OF(X509) * list) { sk_X509_free(list); });
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(rest.get(), chain[i].get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), rest.get());
  const bool verified = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (verified) return "";
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

}  // namespace

absl::Status CheckOwnRoles(const TlsOptions& tls, const std::vector<std::string_view>& roles) {
  if (!tls.enabled()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const Pems pems, ReadPems(tls));
  const std::vector<OwnedX509> chain = AllIn(pems.cert);
  const CertificateNames names = NamesOf(chain[0].get());
  std::vector<std::string> missing;
  bool calls = false;
  for (const std::string_view role : roles) {
    calls = calls || role != "decode";
    if (!IsKnownAs(names, role)) missing.emplace_back(role);
  }
  if (!missing.empty()) return NoRole(tls, names, missing);
  return CheckPurpose(tls, chain[0].get(), calls);
}

absl::Status CheckOwnAuthority(const TlsOptions& tls) {
  if (!tls.enabled()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const Pems pems, ReadPems(tls));
  const std::string doubt = Doubt(pems);
  if (doubt.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tls-ca ", tls.ca_file, " does not vouch for --tls-cert ", tls.cert_file, ": ",
                   doubt, "; issue a certificate of that authority, as docs/tls.md shows"));
}

}  // namespace baton
