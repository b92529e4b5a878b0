#include "common/http/tls_stream.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/status.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using OwnedX509 = std::unique_ptr<X509, decltype(&X509_free)>;

std::vector<OwnedX509> CertificatesIn(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::vector<OwnedX509> all;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    all.emplace_back(next, X509_free);
  }
  return all;
}

bool UseOwn(SSL_CTX* context, const Pems& pems) {
  const std::vector<OwnedX509> chain = CertificatesIn(pems.cert);
  if (chain.empty() || SSL_CTX_use_certificate(context, chain[0].get()) != 1) return false;
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) return false;
  }
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pems.key.data(), static_cast<int>(pems.key.size())), BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(
          bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr),
      EVP_PKEY_free);
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

void TrustAuthority(SSL_CTX* context, const Pems& pems, bool demand) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const OwnedX509& root : CertificatesIn(pems.ca)) {
    X509_STORE_add_cert(store, root.get());
    SSL_CTX_add_client_CA(context, root.get());
  }
  // As gRPC has it: an intermediate authority may stand alone in the file.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  const int must = demand ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | must, nullptr);
}

int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_bytes,
                   const unsigned char* offered, unsigned offered_bytes, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int result =
      SSL_select_next_proto(&chosen, out_bytes, kOurs, sizeof(kOurs) - 1, offered, offered_bytes);
  *out = chosen;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

SSL_CTX* NewContext(const Pems& pems, bool demand) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Idle connections hold no buffers, and what a full socket did not take may be given again from
  // elsewhere.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // No session outlives the authority that vouched for it.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  TrustAuthority(context, pems, demand);
  if (UseOwn(context, pems)) return context;
  SSL_CTX_free(context);
  return nullptr;
}

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// Empty for a name of a type that means nothing here.
std::string AlternativeName(const GENERAL_NAME* name) {
  if (name->type == GEN_DNS) return TextOf(name->d.dNSName);
  if (name->type == GEN_EMAIL) return TextOf(name->d.rfc822Name);
  if (name->type == GEN_URI) return TextOf(name->d.uniformResourceIdentifier);
  if (name->type != GEN_IPADD) return "";
  const int bytes = ASN1_STRING_length(name->d.iPAddress);
  if (bytes != 4 && bytes != 16) return "";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text,
            sizeof(text));
  return text;
}

std::vector<std::string> NamesIn(X509* certificate) {
  std::vector<std::string> names;
  auto* const list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    std::string name = AlternativeName(sk_GENERAL_NAME_value(list, i));
    if (!name.empty()) names.push_back(std::move(name));
  }
  GENERAL_NAMES_free(list);
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) names.push_back(TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  return names;
}

class TlsStream final : public ByteStream {
 public:
  TlsStream(SSL* ssl, int fd) : ssl_(ssl), fd_(fd) {}
  ~TlsStream() override { SSL_free(ssl_); }
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  StreamResult Handshake() override {
    ERR_clear_error();
    return ResultOf(SSL_accept(ssl_));
  }
  StreamResult Read(char* data, size_t size, size_t* got) override {
    ERR_clear_error();
    return ResultOf(SSL_read_ex(ssl_, data, size, got));
  }
  StreamResult Write(std::string_view bytes, size_t* taken) override {
    ERR_clear_error();
    return ResultOf(SSL_write_ex(ssl_, bytes.data(), bytes.size(), taken));
  }
  void CloseWriting() override {
    ERR_clear_error();
    if (!broken_) SSL_shutdown(ssl_);
    ERR_clear_error();
    shutdown(fd_, SHUT_WR);
  }
  bool has_certificate() const override { return SSL_get0_peer_certificate(ssl_) != nullptr; }
  std::vector<std::string> certificate_names() const override {
    X509* const certificate = SSL_get0_peer_certificate(ssl_);
    return certificate != nullptr ? NamesIn(certificate) : std::vector<std::string>();
  }

 private:
  StreamResult ResultOf(int result) {
    if (result == 1) return StreamResult::kDone;
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ) return StreamResult::kWantRead;
    if (error == SSL_ERROR_WANT_WRITE) return StreamResult::kWantWrite;
    // After these two the library forbids to close in the polite way.
    broken_ = error == SSL_ERROR_SSL || error == SSL_ERROR_SYSCALL;
    ERR_clear_error();  // the list of errors is the thread's, and read by others too
    return StreamResult::kClosed;
  }

  SSL* const ssl_;
  const int fd_;
  bool broken_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TlsStreams>> TlsStreams::Create(const TlsOptions& tls,
                                                               bool demand_certificate) {
  BATON_ASSIGN_OR_RETURN(PemsInUse in_use, WatchPems(tls));
  std::unique_ptr<TlsStreams> streams(new TlsStreams(std::move(in_use), demand_certificate));
  BATON_RETURN_IF_ERROR(streams->Renew());
  return streams;
}

absl::Status TlsStreams::Renew() {
  auto pems = in_use_();
  if (pems == pems_) return absl::OkStatus();
  pems_ = std::move(pems);
  ERR_clear_error();
  Context made(NewContext(*pems_, demand_), SSL_CTX_free);
  ERR_clear_error();
  if (made == nullptr) {
    return absl::InvalidArgumentError(
        "the certificates cannot serve HTTP with TLS: OpenSSL takes the certificate or its key "
        "for too weak; issue one with a key of at least 2048 bits (RSA) or 256 (EC)");
  }
  context_ = std::move(made);
  return absl::OkStatus();
}

std::unique_ptr<ByteStream> TlsStreams::Make(int fd) {
  if (const absl::Status renewed = Renew(); !renewed.ok()) {
    spdlog::error("the certificates read before stay in use: {}", std::string(renewed.message()));
  }
  SSL* const ssl = SSL_new(context_.get());
  if (ssl == nullptr || SSL_set_fd(ssl, fd) != 1) {
    SSL_free(ssl);
    return nullptr;
  }
  return std::make_unique<TlsStream>(ssl, fd);
}

}  // namespace baton
