// Stands for baton-router, baton-prefill and baton-decode in tests of `baton serve`, by the name it
// is called with. Serves /readyz, prints a ready line, writes its command line to stderr and ends
// with 0 on SIGTERM. A model directory named "broken" makes it exit 3, one named "full" makes the
// router exit 4, and one named "loud" makes it log 3 MiB before it is ready.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "common/admin/admin_server.h"
#include "common/config/ready_line.h"

int main(int argc, char** argv) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  const std::string name = std::filesystem::path(argv[0]).filename();
  int admin_port = 0;
  int port = 0;
  std::string line = name;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    line += " " + argument;
    if (argument == "broken") return 3;
    if (argument == "full" && name == "baton-router") return 4;
    if (argument.starts_with("--port=")) port = std::stoi(argument.substr(7));
    if (argument.starts_with("--admin-port=")) admin_port = std::stoi(argument.substr(13));
  }
  std::fprintf(stderr, "%s\n", line.c_str());
  if (line.find(" loud ") != std::string::npos) {
    for (int i = 0; i < 3 << 10; ++i) std::fprintf(stderr, "%s\n", std::string(1023, 'x').c_str());
  }
  const auto admin = baton::AdminServer::Start({.port = admin_port,
                                                .metrics = [] { return std::string(); },
                                                .ready = [] { return absl::OkStatus(); },
                                                .healthy = {}});
  if (!admin.ok()) return 5;
  baton::PrintReadyLine({.role = name.substr(name.find('-') + 1),
                         .grpc = "127.0.0.1:" + std::to_string(port),
                         .admin = (*admin)->address()});
  int signal = 0;
  sigwait(&term, &signal);
  return 0;
}
