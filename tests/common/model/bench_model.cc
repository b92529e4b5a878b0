// Load, memory, prefill and decode of one model, beside the machine's limits measured in the same
// run.
//   bench_model [--threads N[,N...]] [--load-only] [--device cpu|cuda] [--dtype D]
//               [--quantization none|fp8] [--load-cache DIR] [--sweep] [--json] [DIR|FILE.gguf]
// Without a model, or where nothing is there, it makes one of random weights in bf16: a Llama of
// 430 M parameters, for a GPU of the shape of Llama-3.1-8B (16 GB). With more than one number of
// threads, each has a run of its own, and a table shows how the figures scale. --json: a last line
// of figures. --sweep: steps of many sizes in place of the usual few, which `baton sim fit` fits
// its costs to.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/cores.h"
#include "kernels/backend_factory.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/bench_shape.h"
#include "tests/common/model/model_harness.h"
#include "tests/common/model/scaling_table.h"
#include "tests/common/model/step_timing.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

// All threads read their part of a file in pieces of 1 MiB: what the page cache or disk gives.
double ReadBytesPerSecond(const std::string& path, int threads) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const off_t size = lseek(file, 0, SEEK_END);
  const double seconds = Seconds([&] {
    std::vector<std::thread> readers;
    for (int t = 0; t < threads; ++t) {
      readers.emplace_back([=] {
        std::vector<char> piece(1 << 20);
        for (off_t at = size / threads * t; at < size / threads * (t + 1); at += 1 << 20) {
          if (pread(file, piece.data(), piece.size(), at) < 0) std::abort();
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
  });
  close(file);
  return static_cast<double>(size) / seconds;
}

// All threads write fresh memory, as packed weights are: page faults, and on a virtual machine the
// host's as well.
double FreshBytesPerSecond(int threads) {
  constexpr size_t kBytes = size_t{256} << 20;
  const double seconds = Seconds([=] {
    std::vector<std::thread> writers;
    for (int t = 0; t < threads; ++t) {
      writers.emplace_back([=] {
        void* memory =
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) std::abort();
        (void)madvise(memory, kBytes, MADV_HUGEPAGE);
        std::memset(memory, 1, kBytes);
        munmap(memory, kBytes);
      });
    }
    for (std::thread& writer : writers) writer.join();
  });
  return static_cast<double>(kBytes) * threads / seconds;
}

int64_t StatusBytes(const char* key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(key)) return std::atoll(line.c_str() + std::strlen(key)) * 1024;
  }
  return 0;
}

struct Options {
  ModelOptions model;
  bool load_only = false;
  bool json = false;
  bool sweep = false;
  std::vector<int> threads;  // a run each
  std::string dir;           // empty: a model is made and thrown away

  bool on_gpu() const { return kernels::HasOwnMemory(model.device); }
};

// Whether `flag` is one of the model's and `value` is one that it takes.
bool SetModelOption(const std::string& flag, const std::string& value, ModelOptions& options) {
  if (flag == "--device" && kernels::ParseDevice(value).has_value()) {
    options.device = *kernels::ParseDevice(value);
  } else if (flag == "--dtype" && kernels::ParseDType(value).has_value()) {
    options.dtype = kernels::ParseDType(value);
  } else if (flag == "--quantization" && kernels::ParseQuantization(value).has_value()) {
    options.quantization = *kernels::ParseQuantization(value);
  } else if (flag == "--load-cache" && !value.empty()) {
    options.load_cache = value;
  } else {
    return false;
  }
  return true;
}

// Whether `list` is of numbers above 0, which it appends to `threads`.
bool AddThreads(const std::string& list, std::vector<int>& threads) {
  for (const absl::string_view number : absl::StrSplit(list, ',')) {
    int count = 0;
    if (!absl::SimpleAtoi(number, &count) || count < 1) return false;
    threads.push_back(count);
  }
  return true;
}

// Empty when the command line is wrong or asks for help.
std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (SetModelOption(argument, value, options.model) ||
        (argument == "--threads" && AddThreads(value, options.threads))) {
      ++i;
    } else if (argument == "--load-only") {
      options.load_only = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--sweep") {
      options.sweep = true;
    } else if (!argument.starts_with("-") && options.dir.empty()) {
      options.dir = argument;
    } else {
      return std::nullopt;
    }
  }
  if (options.threads.empty()) {
    options.threads = {base::UsableCores(base::CpusOfThisThread())};
  }
  return options;
}

constexpr RandomModelSpec kLlama8B = {.layers = 32,
                                      .hidden = 4096,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .head_dim = 128,
                                      .ffn = 14336,
                                      .vocab = 128256};

// At `dir`, unless something is there.
bool MakeModel(const std::string& dir, const RandomModelSpec& spec) {
  if (std::filesystem::exists(dir)) return true;
  absl::Status written;
  const double seconds = Seconds([&] { written = WriteRandomModel(spec, dir); });
  std::printf("make-random: %.1f s %s\n", seconds, written.ToString().c_str());
  return written.ok();
}

void PrintMemory(const char* when) {
  std::printf("%s: now %.0f MB, peak %.0f MB", when,
              static_cast<double>(StatusBytes("VmRSS:")) / 1e6,
              static_cast<double>(StatusBytes("VmHWM:")) / 1e6);
}

// Loads `dir` and prints time and memory beside their limits; null when it does not load.
std::unique_ptr<LoadedModel> Load(const std::string& dir, const Options& given,
                                  nlohmann::json* figures) {
  const std::string weights = dir.ends_with(".gguf") ? dir : dir + "/model.safetensors";
  ModelOptions options = given.model;
  const int threads = options.threads;
  (void)ReadBytesPerSecond(weights, threads);  // into the page cache
  const double read = ReadBytesPerSecond(weights, threads);
  options.kv.tokens = given.on_gpu() ? 96 * 1024 : 16384;
  if (given.on_gpu()) options.limits.max_tokens = 8192;
  double packed_seconds = 0;
  double packed_cpu = 0;
  const double cpu_begin = CpuSeconds();
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  auto model = LoadModel(dir, options, [&](int64_t, int64_t) {
    packed_seconds = base::Seconds(clock.Now() - begin);
    packed_cpu = CpuSeconds() - cpu_begin;
  });
  const double load = base::Seconds(clock.Now() - begin);
  if (!model.ok()) {
    std::printf("%s\n", model.status().ToString().c_str());
    return nullptr;
  }
  const double packed = static_cast<double>((*model)->weight_bytes);
  const kernels::PagedKv& pool = (*model)->kv();
  const double kv = static_cast<double>(pool.layout.block_bytes()) * pool.num_blocks;
  std::printf(
      "load: packed in %.2f s (%.2f s CPU), ready in %.2f s (%.2f s CPU), %.2f GB/s; file reads at "
      "%.2f GB/s\n",
      packed_seconds, packed_cpu, load, CpuSeconds() - cpu_begin, packed / packed_seconds / 1e9,
      read / 1e9);
  (*figures)["load"] = {{"packed_s", packed_seconds},
                        {"ready_s", load},
                        {"packed_bytes", packed},
                        {"file_read_bytes_per_s", read}};
  PrintMemory("memory");
  std::printf("; weights %.0f MB, KV %.0f MB, limit %.0f MB\n", packed / 1e6, kv / 1e6,
              (1.1 * (packed + kv) + 150 * 1048576.0) / 1e6);
  std::printf("limit of a load: fresh memory is written at %.2f GB/s\n",
              FreshBytesPerSecond(threads) / 1e9);
  std::printf("backend: %s\n", (*model)->numerics().c_str());
  return *std::move(model);
}

// Steps of sizes that lie far apart, as far as the model takes them.
void Sweep(const LoadedModel& model, StepTiming* timing) {
  const int32_t most = model.transformer->limits().max_tokens;
  const int32_t positions = model.config.max_positions;
  const int64_t pool = int64_t{model.kv().num_blocks} * model.kv().layout.block_size;
  for (const int32_t count : {1, 2, 4, 8}) {
    for (const int32_t tokens : {16, 64, 128, 256, 512, 1024}) {
      if (count * tokens <= most && tokens < positions) timing->Prefill(count, tokens);
    }
  }
  for (const int32_t batch : {1, 2, 4, 8, 16, 32, 64}) {
    for (const int32_t context : {32, 128, 512, 1024}) {
      // A sequence grows by some hundred tokens while its steps are timed.
      const bool fits = int64_t{batch} * (context + 512) <= pool && context + 512 <= positions;
      if (fits && context <= most) timing->Decode(batch, context);
    }
  }
}

// The figures of both roles at the sizes that matter on the device.
absl::Status Measure(LoadedModel& model, const Options& options, nlohmann::json* figures) {
  StepTiming timing(model, figures);
  if (options.on_gpu() || options.threads.size() > 1) {
    const auto limits =
        kernels::MeasureLimits(*model.backend, options.model.threads, model.has_integers());
    if (!limits.ok()) return limits.status();
    timing.SetLimits(*limits);
  }
  if (options.sweep) {
    Sweep(model, &timing);
    return absl::OkStatus();
  }
  if (!options.on_gpu()) {
    timing.Prefill(1, 512);
    for (const int32_t batch : {1, 8, 32}) timing.Decode(batch, 256);
    timing.EosFigures(64, timing.Decode(64, 128));
    return absl::OkStatus();
  }
  timing.Prefill(8, 1024);
  timing.Prefill(1, 1024);
  timing.Decode(1, 1024);
  timing.Decode(64, 1024);
  return absl::OkStatus();
}

// Loads and measures the model once. Empty when that failed, which was said.
std::optional<nlohmann::json> Run(const std::string& dir, const Options& options) {
  nlohmann::json figures;
  const std::unique_ptr<LoadedModel> model = Load(dir, options, &figures);
  if (model == nullptr) return std::nullopt;
  figures["numerics"] = model->numerics();
  figures["threads"] = model->threads();
  if (options.load_only) return figures;
  const absl::Status measured = Measure(*model, options, &figures);
  if (!measured.ok()) {
    std::fprintf(stderr, "%s\n", measured.ToString().c_str());
    return std::nullopt;
  }
  PrintMemory("memory after");
  std::printf("\n");
  return figures;
}

// One run for each number of threads.
bool RunAll(const std::string& dir, Options options) {
  std::vector<nlohmann::json> runs;
  for (const int threads : options.threads) {
    options.model.threads = threads;
    if (options.threads.size() > 1) std::printf("\n%d threads\n", threads);
    std::optional<nlohmann::json> figures = Run(dir, options);
    if (!figures) return false;
    runs.push_back(*std::move(figures));
  }
  const bool scaling = runs.size() > 1 && !options.load_only;
  if (scaling) std::printf("\n%s", ScalingTable(runs).c_str());
  const nlohmann::json all = runs.size() > 1 ? nlohmann::json(runs) : runs[0];
  if (options.json) std::printf("%s\n", all.dump().c_str());
  return true;
}

int Main(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  if (!options) {
    std::fprintf(
        stderr,
        "usage: bench_model [--threads N[,N...]] [--load-only] [--device cpu|cuda] [--dtype D] "
        "[--quantization none|fp8] [--load-cache DIR] [--sweep] [--json] [DIR|FILE.gguf]\n");
    return 2;
  }
  if (options->on_gpu()) {
    // A GPU that is not there shows before a model of 16 GB is made.
    const auto probe = kernels::MakeBackend({.device = options->model.device});
    if (!probe.ok()) {
      std::fprintf(stderr, "%s\n", probe.status().ToString().c_str());
      return 1;
    }
  }
  ScratchFolder temporary;
  const std::string dir = options->dir.empty() ? temporary / "model" : options->dir;
  if (!MakeModel(dir, options->on_gpu() ? kLlama8B : kBenchShape)) return 1;
  return RunAll(dir, *options) ? 0 : 1;
}

}  // namespace
}  // namespace baton::test

int main(int argc, char** argv) {
  baton::kernels::ConnectGroupsWhenMade();
  return baton::test::Main(argc, argv);
}
