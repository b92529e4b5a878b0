#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/rpc/tls.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {

// An authority and certificates that it signed, made by the openssl command line in a folder of
// their own.
class TlsFiles final {
 public:
  TlsFiles() {
    Run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN=test-ca -keyout ca.key -out ca.pem");
  }

  // Puts a new certificate of `role` and its key in the place of `file`.pem and `file`.key. The
  // common name tells it from others of the role. Behind the role may stand more alternative names,
  // and lines of more extensions, as openssl writes them: "router,IP:127.0.0.1".
  void Issue(const std::string& file, const std::string& role, const std::string& common_name) {
    Run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + common_name +
        " -keyout new.key -out new.csr");
    folder_.Write("ext", "subjectAltName=DNS:" + role + "\n");
    Run("openssl x509 -req -days 2 -in new.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile "
        "ext -out new.pem && mv new.key " +
        file + ".key && mv new.pem " + file + ".pem");
  }
  void Run(const std::string& command) const {
    EXPECT_EQ(std::system(("cd " + folder_.path() + " && (" + command + ") >log 2>&1").c_str()), 0)
        << command;
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  TlsOptions Of(const std::string& file) const {
    return {.cert_file = path(file + ".pem"),
            .key_file = path(file + ".key"),
            .ca_file = path("ca.pem")};
  }

 private:
  const ScratchFolder folder_;
};

}  // namespace baton
