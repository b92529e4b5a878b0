// What the files of TLS hold, and whether it can serve.
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/rpc/certificates.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace baton {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio Over(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

absl::StatusOr<std::string> ReadPem(const std::string& path, const char* flag) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " is missing; give --tls-cert, --tls-key and --tls-ca together, or none of them"));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().find("-----BEGIN ") == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, " cannot be read as PEM; check the path and its rights"));
  }
  return text.str();
}

// The first certificate in `pem`; null if there is none, or if one behind it is broken.
Certificate FirstOf(const std::string& pem) {
  const Bio bio = Over(pem);
  Certificate first(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  if (first == nullptr) return first;
  while (Certificate next{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free}) {
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  return at_end ? std::move(first) : Certificate(nullptr, X509_free);
}

absl::Status Unusable(const char* flag, const std::string& path, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", path, " ", std::string(what), "; put a whole file in its place"));
}

absl::Status CheckAuthority(const TlsOptions& tls, const std::string& pem) {
  if (FirstOf(pem) != nullptr) return absl::OkStatus();
  return Unusable("--tls-ca", tls.ca_file, "holds no certificate, or a part of one");
}

absl::Status Check(const TlsOptions& tls, const Pems& pems) {
  const Certificate certificate = FirstOf(pems.cert);
  if (certificate == nullptr) {
    return Unusable("--tls-cert", tls.cert_file, "holds no certificate, or a part of one");
  }
  const Bio bio = Over(pems.key);
  // A password cannot be asked for.
  const PrivateKey key(PEM_read_bio_PrivateKey(
                           bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr),
                       EVP_PKEY_free);
  if (key == nullptr) {
    return Unusable("--tls-key", tls.key_file, "holds no private key, or a part of one");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Unusable("--tls-key", tls.key_file,
                    absl::StrCat("is not the key of the certificate in ", tls.cert_file));
  }
  return CheckAuthority(tls, pems.ca);
}

}  // namespace

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
  const absl::Status usable = Check(tls, pems);
  ERR_clear_error();  // OpenSSL's list of errors is the thread's, and read by others too
  if (!usable.ok()) return usable;
  return pems;
}

absl::StatusOr<std::string> ReadAuthority(const TlsOptions& tls) {
  auto text = ReadPem(tls.ca_file, "--tls-ca");
  if (!text.ok()) return text.status();
  const absl::Status usable = CheckAuthority(tls, *text);
  ERR_clear_error();
  if (!usable.ok()) return usable;
  return text;
}

}  // namespace baton
