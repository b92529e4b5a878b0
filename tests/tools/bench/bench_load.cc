// What the load generator costs and how many streams it carries: a server with known times in
// another process on another core, this one on a single core.
//
//   bench_load baton|openai [STREAMS 2000] [GAP_MS 50] [TOKENS 200] [RATE 0] [CONNECTIONS 4]
//
// RATE 0 is a closed loop of STREAMS; else an open loop of that many requests per second, of which
// STREAMS are sent.
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "common/base/check.h"
#include "tests/fakes/sse_load_server.h"
#include "tests/fakes/timed_inference_server.h"
#include "tests/tools/bench/load/load_helpers.h"
#include "tools/bench/client/baton_client.h"
#include "tools/bench/client/open_files.h"
#include "tools/bench/client/openai_client.h"

namespace baton::bench {
namespace {

struct Setting {
  bool openai = false;
  int streams = 2000;
  int gap_ms = 50;
  int tokens = 200;
  double rate = 0;
  int connections = 4;
};

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) std::perror("sched_setaffinity");
}

void Say(const std::string& address, int say_to) {
  BATON_CHECK(write(say_to, address.data(), address.size()) ==
              static_cast<ssize_t>(address.size()));
  close(say_to);
}

// Until `until_closed` reads its end.
[[noreturn]] void Serve(const Setting& setting, int say_to, int until_closed) {
  PinTo(1);
  const auto gap = setting.gap_ms * kMillisecond;
  if (setting.openai) {
    BATON_CHECK(AllowOpenFiles(setting.streams).ok());
    testing::SseLoadServer server(gap);
    Say(server.url(), say_to);
    server.Run(until_closed);
  } else {
    testing::TimedInferenceServer server({.ttft = gap, .gap = gap});
    Say(server.address(), say_to);
    char byte = 0;
    while (read(until_closed, &byte, 1) > 0) {
    }
  }
  _exit(0);
}

std::unique_ptr<StreamClient> Connect(const Setting& setting, const std::string& address) {
  if (setting.openai) {
    auto client = OpenAiClient::Connect({.base_url = address, .max_streams = setting.streams});
    BATON_CHECK(client.ok()) << client.status();
    return std::move(*client);
  }
  auto client = BatonClient::Connect({.address = address, .connections = setting.connections});
  BATON_CHECK(client.ok()) << client.status();
  return std::move(*client);
}

double CpuSeconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double CpuOf(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return CpuSeconds(usage);
}

double CpuOfProcess(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  double ticks = 0;
  for (int i = 1; i <= 15 && file >> word; ++i) {
    if (i >= 14) ticks += std::stod(word);  // utime, stime
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

void Print(const Setting& setting, const LoadResult& result, double client_cpu, double server_cpu) {
  int64_t tokens = 0;
  int64_t failed = 0;
  std::vector<double> ttft, gaps;
  for (const RequestRecord& record : result.records) {
    tokens += TokensOf(record);
    if (!record.ok() && ++failed == 1) {
      std::printf("first failure: %s\n", record.status.ToString().c_str());
    }
    ttft.push_back(1e3 * (record.first_token() - record.scheduled));
    for (size_t i = 1; i < record.chunks.size(); ++i) {
      gaps.push_back(1e3 * (record.chunks[i].at - record.chunks[i - 1].at));
    }
  }
  const double seconds = result.duration_s;
  const auto total = static_cast<double>(tokens);
  std::printf(
      "%zu requests, %ld failed, %ld tokens in %.2f s: %.0f tokens/s (offered at most %.0f)\n",
      result.records.size(), failed, tokens, seconds, total / seconds,
      1e3 * setting.streams / setting.gap_ms);
  std::printf("lag p50 %.3f p99 %.3f max %.3f ms\n", Percentile(result.lag_ms, 0.5),
              Percentile(result.lag_ms, 0.99), Percentile(result.lag_ms, 1));
  std::printf("ttft p50 %.1f p99 %.1f ms, gap p50 %.2f p99 %.2f max %.1f ms (server: %d ms)\n",
              Percentile(ttft, 0.5), Percentile(ttft, 0.99), Percentile(gaps, 0.5),
              Percentile(gaps, 0.99), Percentile(gaps, 1), setting.gap_ms);
  std::printf("client CPU %.0f %% of one core, %.2f us per token; server CPU %.0f %%\n",
              100 * client_cpu / seconds, 1e6 * client_cpu / total, 100 * server_cpu / seconds);
}

int Measure(const Setting& setting) {
  int address_pipe[2];
  int life_pipe[2];
  BATON_CHECK(pipe2(address_pipe, O_CLOEXEC) == 0 && pipe2(life_pipe, O_CLOEXEC) == 0);
  const pid_t server = fork();
  BATON_CHECK(server >= 0);
  if (server == 0) {
    close(life_pipe[1]);
    Serve(setting, address_pipe[1], life_pipe[0]);
  }
  PinTo(0);
  close(address_pipe[1]);
  char address[64] = {};
  BATON_CHECK(read(address_pipe[0], address, sizeof(address) - 1) > 0);
  {
    const auto client = Connect(setting, address);
    const auto gap = setting.rate > 0
                         ? std::chrono::nanoseconds(static_cast<int64_t>(1e9 / setting.rate))
                         : std::chrono::nanoseconds(0);
    const RequestPlan plan = PlanOf(setting.streams, setting.tokens, gap);
    const double client_before = CpuOf(RUSAGE_SELF);
    const double server_before = CpuOfProcess(server);
    const LoadResult result =
        LoadOf(plan, {.concurrency = setting.rate > 0 ? 0 : setting.streams}, client.get());
    Print(setting, result, CpuOf(RUSAGE_SELF) - client_before,
          CpuOfProcess(server) - server_before);
  }
  close(life_pipe[1]);
  waitpid(server, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  const auto number = [&](int place, double fallback) {
    return argc > place ? std::atof(argv[place]) : fallback;
  };
  baton::bench::Setting setting;
  setting.openai = argc > 1 && std::string(argv[1]) == "openai";
  setting.streams = static_cast<int>(number(2, setting.streams));
  setting.gap_ms = std::max(1, static_cast<int>(number(3, setting.gap_ms)));
  setting.tokens = static_cast<int>(number(4, setting.tokens));
  setting.rate = number(5, setting.rate);
  setting.connections = static_cast<int>(number(6, setting.connections));
  return baton::bench::Measure(setting);
}
