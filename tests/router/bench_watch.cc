// What the statuses of many workers cost a router: a real router process in front of workers of
// which only the status streams are there. Prints its share of a core.
//
//   bench_watch ROUTER [WORKERS [SECONDS]]
//
// ROUTER is the binary of the router. Half of the workers are prefill workers.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/status_fleet.h"

namespace baton::testing {
namespace {

// A listening port and a connection of each worker are ours.
void AllowManyFiles() {
  rlimit limit{};
  BATON_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  BATON_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

pid_t StartRouter(const char* binary, const StatusFleet& prefill, const StatusFleet& decode) {
  const std::vector<std::string> arguments = {binary,
                                              BATON_SOURCE_DIR "/tests/golden/models/llama31_hd16",
                                              "--host",
                                              "127.0.0.1",
                                              "--port",
                                              "0",
                                              "--admin-port",
                                              "0",
                                              "--log-level",
                                              "warn",
                                              "--prefill-workers",
                                              absl::StrJoin(prefill.addresses(), ","),
                                              "--decode-workers",
                                              absl::StrJoin(decode.addresses(), ",")};
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    execv(binary, pointers.data());
    _exit(127);
  }
  return pid;
}

// CPU seconds of a process, its own and the kernel's for it.
double CpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t after_name = text.rfind(')');
  BATON_CHECK(after_name != std::string::npos) << "the router is gone";
  std::istringstream fields(text.substr(after_name + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  int64_t user = 0, system = 0;
  fields >> user >> system;
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int Run(const char* binary, int workers, int seconds) {
  AllowManyFiles();
  worker::v1::KvLayout layout;
  layout.set_dtype("float32");
  layout.set_block_size(16);
  layout.set_layers(3);
  layout.set_kv_heads(2);
  layout.set_head_dim(16);
  layout.set_tensor_parallel(1);
  layout.set_layout_version(1);
  const int half = std::max(1, workers / 2);
  StatusFleet prefill({.role = worker::v1::WORKER_ROLE_PREFILL, .workers = half, .layout = layout});
  StatusFleet decode({.role = worker::v1::WORKER_ROLE_DECODE, .workers = half, .layout = layout});
  const pid_t router = StartRouter(binary, prefill, decode);
  const auto statuses = [&] { return prefill.statuses() + decode.statuses(); };
  BATON_CHECK(Eventually([&] { return prefill.streams() + decode.streams() == 2 * half; }))
      << prefill.streams() + decode.streams() << " of " << 2 * half << " streams came";
  std::this_thread::sleep_for(std::chrono::seconds(3));  // past the start
  const int64_t sent = statuses();
  const double used = CpuSeconds(router);
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double cpu = CpuSeconds(router) - used;
  const auto told = static_cast<double>(statuses() - sent);
  std::printf("%d workers: %.0f statuses/s, %.3f of a core, %.1f us a status\n", 2 * half,
              told / took, cpu / took, cpu * 1e6 / std::max(1.0, told));
  kill(router, SIGKILL);
  waitpid(router, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace baton::testing

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "bench_watch ROUTER [WORKERS [SECONDS]]\n");
    return 2;
  }
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise;
  };
  return baton::testing::Run(argv[1], number(2, 1000), number(3, 30));
}
