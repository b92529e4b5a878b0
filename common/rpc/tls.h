#pragma once

#include <string>

namespace baton {

// Mutual TLS: all three files or none. A certificate names its holder's role: the DNS subject
// alternative name (or the common name) is "router", "prefill" or "decode".
struct TlsOptions {
  std::string cert_file;  // PEM chain, this process's certificate first
  std::string key_file;   // PEM
  std::string ca_file;    // PEM roots that peers must chain to

  bool enabled() const { return !cert_file.empty() || !key_file.empty() || !ca_file.empty(); }
};

}  // namespace baton
