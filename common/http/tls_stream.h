#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/http/byte_stream.h"
#include "common/rpc/pems.h"
#include "openssl/ssl.h"

namespace baton {

// Makes the server's side of TLS connections, with the certificates in use at that moment.
class TlsStreams final {
 public:
  // Fails where the files cannot serve.
  static absl::StatusOr<std::unique_ptr<TlsStreams>> Create(const TlsOptions& tls,
                                                            bool demand_certificate);

  // Null when memory is short. From one thread.
  std::unique_ptr<ByteStream> Make(int fd);

 private:
  using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
  TlsStreams(PemsInUse in_use, bool demand) : in_use_(std::move(in_use)), demand_(demand) {}
  absl::Status Renew();

  const PemsInUse in_use_;
  const bool demand_;
  std::shared_ptr<const Pems> pems_;  // that `context_` was made of, or could not be
  Context context_{nullptr, SSL_CTX_free};
};

}  // namespace baton
