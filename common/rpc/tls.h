#pragma once

#include <chrono>
#include <string>

namespace baton {

// Mutual TLS: all three files or none; a client may have the authority alone. A certificate names
// its holder: the DNS subject alternative name (or the common name) is "router", "prefill" or
// "decode" of a process, and a client's tenant.
struct TlsOptions {
  std::string cert_file;  // PEM chain, this process's certificate first
  std::string key_file;   // PEM
  std::string ca_file;    // PEM roots that peers must chain to
  // How often the files are looked at for new content. Whoever names the files first decides.
  std::chrono::milliseconds reload_every{10'000};

  bool enabled() const { return !cert_file.empty() || !key_file.empty() || !ca_file.empty(); }
};

}  // namespace baton
