// What a row of the EOS log costs a router: CPU time from the message of a worker to the line in
// the file, of all threads, beside what the machine takes to write as many bytes.
//
//   bench_eos_log [ROWS [FOLDER]]
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "baton/worker/v1/decode.pb.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/eos/eos_log.h"
#include "common/eos/log_parts.h"
#include "common/rpc/generation.h"

namespace baton {
namespace {

constexpr int kRequests = 64;  // side by side, as the rows of a decode step
constexpr int kSteps = 256;    // of each
constexpr size_t kPiece = size_t{256} << 10;
constexpr int kRounds = 5;

double CpuMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// The message with the token of a step, as gRPC hands it over. No two figures are alike, so that
// they compress no better than those of a model.
std::string Message(int step, std::mt19937* random) {
  std::uniform_real_distribution<float> share(0, 1);
  const auto draw = [&] { return share(*random); };
  PlacedToken token{.index = step - 1, .token = {}, .unix_time = 1.7e9 + step + draw()};
  token.token.token = static_cast<TokenId>(32000 * draw());
  token.token.logprob = -3 * draw();
  token.token.eos = {.eos_logprob = -20 * draw(),
                     .eos_prob_sampling = std::exp(-20 * draw()),
                     .eos_rank = 1 + static_cast<int32_t>(5000 * draw()),
                     .entropy = 4 * draw(),
                     .top1_prob = draw()};
  worker::v1::DecodeResponse response;
  TokenToProto(token, {.eos_signal = true}, response.mutable_tokens()->add_tokens());
  return response.SerializeAsString();
}

using Take = std::function<void(int request, const PlacedToken& token)>;

// Parses messages as the router does, step by step, `rows` in all.
void Receive(const std::vector<std::string>& messages, int rows, const Take& take) {
  worker::v1::DecodeResponse response;
  for (int row = 0; row < rows; ++row) {
    const size_t at = static_cast<size_t>(row) % messages.size();
    BATON_CHECK(response.ParseFromString(messages[at]));
    for (const auto& token : response.tokens().tokens()) {
      take(static_cast<int>(at) % kRequests, TokenFromProto(token));
    }
  }
}

// The rows of a number of requests that end and begin anew.
class Requests final {
 public:
  explicit Requests(EosLog* log) : log_(log), rows_(kRequests) {}

  void Accept(int request, const PlacedToken& token) {
    while (log_->Congested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::unique_ptr<EosRequestLog>& rows = rows_[static_cast<size_t>(request)];
    const int step = token.index + 1;
    if (step == 1) {
      rows = std::make_unique<EosRequestLog>(
          log_, EosRequestFacts{.request_id = "req-8d7d0061250723" + std::to_string(10 + request),
                                .eos_token_id = 2,
                                .prompt_length = 128});
    }
    rows->Accept({.timestamp = token.unix_time,
                  .step = step,
                  .id = token.token.token,
                  .signal = token.token.eos});
    if (step == kSteps) rows->Finish(FinishReason::kLength);
  }

 private:
  EosLog* const log_;
  std::vector<std::unique_ptr<EosRequestLog>> rows_;
};

struct Cost {
  double cpu = 0;      // microseconds a row
  double seconds = 0;  // in all
};

Cost Measure(int rows, const std::function<void()>& work) {
  const double cpu = CpuMicroseconds();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {(CpuMicroseconds() - cpu) / rows, seconds};
}

// The least disturbed of some rounds.
Cost Best(int rows, const std::function<void()>& work) {
  Cost best = Measure(rows, work);
  for (int round = 1; round < kRounds; ++round) {
    const Cost cost = Measure(rows, work);
    if (cost.cpu < best.cpu) best = cost;
  }
  return best;
}

void WriteLog(const std::vector<std::string>& messages, int rows, const std::string& path,
              int64_t max_bytes) {
  auto log = EosLog::Open({.path = path, .meta_json = "{}", .max_bytes = max_bytes, .keep = 1000});
  BATON_CHECK(log.ok()) << log.status();
  Requests requests(log->get());
  Receive(messages, rows,
          [&](int request, const PlacedToken& token) { requests.Accept(request, token); });
  const uint64_t waiting_for = static_cast<uint64_t>(rows - kRequests);
  while ((*log)->rows_written() < waiting_for || !(*log)->parts_are_kept()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  BATON_CHECK((*log)->lines_dropped() == 0);
}

// Writes so many bytes to a file in pieces as the log's thread does.
void WriteBytes(const std::string& path, int64_t bytes) {
  const std::string piece(kPiece, 'x');
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  for (int64_t left = bytes; left > 0; left -= static_cast<int64_t>(kPiece)) {
    BATON_CHECK(write(file, piece.data(), kPiece) == static_cast<ssize_t>(kPiece));
  }
  close(file);
}

void Print(const char* what, int rows, const Cost& cost) {
  std::printf("%-52s %6.2f us of CPU a row, %9.0f rows/s\n", what, cost.cpu, rows / cost.seconds);
}

void Run(int rows, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/eos.jsonl";
  std::vector<std::string> messages;
  std::mt19937 random(1);
  for (int step = 1; step <= kSteps; ++step) {
    for (int request = 0; request < kRequests; ++request) {
      messages.push_back(Message(step, &random));
    }
  }
  const auto in_an_empty_folder = [&](const std::function<void()>& work) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    work();
  };
  const Cost parsed = Best(rows, [&] { Receive(messages, rows, [](int, const PlacedToken&) {}); });
  const Cost logged =
      Best(rows, [&] { in_an_empty_folder([&] { WriteLog(messages, rows, path, 0); }); });
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  const Cost rotated = Best(rows, [&] {
    in_an_empty_folder([&] { WriteLog(messages, rows, path, int64_t{16} << 20); });
  });
  int64_t plain = 0;
  int64_t packed = 0;
  for (const LogPart& part : PartsOf(path)) {
    packed += static_cast<int64_t>(std::filesystem::file_size(part.path));
    plain += int64_t{16} << 20;
  }
  const Cost written = Best(rows, [&] { in_an_empty_folder([&] { WriteBytes(path, bytes); }); });
  std::filesystem::remove_all(folder);
  std::printf("%d rows of %.0f bytes; the best of %d rounds\n", rows,
              static_cast<double>(bytes) / rows, kRounds);
  Print("message to token, which is done without a log, too", rows, parsed);
  Print("message to line in the file", rows, logged);
  Print("message to line, rotated at 16 MiB and compressed", rows, rotated);
  Print("writing as many bytes", rows, written);
  std::printf("the machine writes %.0f MB/s; zstd makes %.2f bytes of one\n",
              static_cast<double>(bytes) / written.seconds / 1e6,
              plain > 0 ? static_cast<double>(packed) / static_cast<double>(plain) : 0.0);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const int rows = argc > 1 ? std::atoi(argv[1]) : 400'000;
  if (rows < 1000) {
    std::fprintf(stderr, "usage: bench_eos_log [ROWS, at least 1000 [FOLDER, which it empties]]\n");
    return 2;
  }
  baton::Run(rows, argc > 2 ? argv[2] : "bench_eos_log.tmp");
  return 0;
}
