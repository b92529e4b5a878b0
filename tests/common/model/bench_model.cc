// Load, memory, prefill and decode of one model, beside the machine's limits measured in the same
// run.
//   bench_model [--threads N] [--load-only] [DIR]
// Without DIR, or where nothing is there, it makes one: a random Llama of 430 M parameters, bf16.
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
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
#include <vector>

#include "common/base/clock.h"
#include "common/model/footprint.h"
#include "tests/common/model/model_harness.h"

namespace baton::test {
namespace {

double Seconds(const std::function<void()>& work) {
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  work();
  return base::Seconds(clock.Now() - begin);
}

// Of all threads of the process: what a phase costs on a machine that others use too.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Median of `count` runs.
double MedianSeconds(int count, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) seconds.push_back(Seconds(work));
  std::nth_element(seconds.begin(), seconds.begin() + count / 2, seconds.end());
  return seconds[count / 2];
}

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

struct Bench {
  LoadedModel& model;
  int threads;

  // Sequences of `context` computed tokens each.
  std::vector<TestSequence> Prefilled(RunnerDriver& driver, int32_t count, int32_t context) {
    std::vector<TestSequence> sequences(count);
    for (int32_t i = 0; i < count; ++i) {
      for (int32_t p = 0; p < context; ++p) sequences[i].prompt.push_back((p * 7 + i) % 256);
      driver.Step({&sequences[i]}, context);
    }
    return sequences;
  }

  void Prefill(int32_t tokens) {
    RunnerDriver driver(model);
    TestSequence sequence;
    for (int32_t p = 0; p < tokens; ++p) sequence.prompt.push_back(p % 256);
    const double cpu_begin = CpuSeconds();
    const double seconds = MedianSeconds(5, [&] {
      driver.Preempt(sequence);
      sequence.output.clear();
      driver.Step({&sequence}, tokens);
    });
    const double cpu = (CpuSeconds() - cpu_begin) / 5;
    const double flops = ComputeFootprint(model.config, {.tokens = tokens}).prefill_flops -
                         (tokens - 1) * LastLayerTailFlops(model.config);
    std::printf(
        "prefill %d tokens: %.1f ms, %.0f tokens/s, %.1f GFLOP/s; %.1f GFLOP per CPU second\n",
        tokens, 1e3 * seconds, tokens / seconds, flops / seconds / 1e9, flops / cpu / 1e9);
  }

  void Decode(int32_t batch, int32_t context) {
    RunnerDriver driver(model);
    std::vector<TestSequence> sequences = Prefilled(driver, batch, context);
    std::vector<TestSequence*> pointers;
    for (TestSequence& sequence : sequences) pointers.push_back(&sequence);
    const double seconds = MedianSeconds(15, [&] { driver.Step(pointers, 1); });
    const double bytes = static_cast<double>(model.weight_bytes) +
                         static_cast<double>(model.kv().layout.bytes_per_token()) * batch * context;
    std::printf("decode batch %d at %d tokens: %.2f ms, %.0f tokens/s, %.1f GB/s read\n", batch,
                context, 1e3 * seconds, batch / seconds, bytes / seconds / 1e9);
  }
};

struct Options {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  bool load_only = false;
  std::string dir;  // empty: a model is made and thrown away
};

// Empty when the command line is wrong or asks for help.
std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--threads" && i + 1 < argc) {
      options.threads = std::atoi(argv[++i]);
    } else if (argument == "--load-only") {
      options.load_only = true;
    } else if (!argument.starts_with("-") && options.dir.empty()) {
      options.dir = argument;
    } else {
      return std::nullopt;
    }
  }
  if (options.threads < 1) return std::nullopt;
  return options;
}

// A Llama of 430 M parameters at `dir`, unless something is there.
bool MakeModel(const std::string& dir) {
  if (std::filesystem::exists(dir)) return true;
  absl::Status written;
  const double seconds = Seconds([&] {
    written = WriteRandomModel({.layers = 24,
                                .hidden = 1024,
                                .heads = 16,
                                .kv_heads = 4,
                                .head_dim = 64,
                                .ffn = 4096,
                                .vocab = 32000},
                               dir);
  });
  std::printf("make-random: %.1f s %s\n", seconds, written.ToString().c_str());
  return written.ok();
}

void PrintMemory(const char* when) {
  std::printf("%s: now %.0f MB, peak %.0f MB", when,
              static_cast<double>(StatusBytes("VmRSS:")) / 1e6,
              static_cast<double>(StatusBytes("VmHWM:")) / 1e6);
}

// Loads `dir` and prints time and memory beside their limits; null when it does not load.
std::unique_ptr<LoadedModel> Load(const std::string& dir, int threads) {
  const std::string weights = dir + "/model.safetensors";
  (void)ReadBytesPerSecond(weights, threads);  // into the page cache
  const double read = ReadBytesPerSecond(weights, threads);
  ModelOptions options;
  options.threads = threads;
  options.kv.tokens = 16384;
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
  PrintMemory("memory");
  std::printf("; weights %.0f MB, KV %.0f MB, limit %.0f MB\n", packed / 1e6, kv / 1e6,
              (1.1 * (packed + kv) + 150 * 1048576.0) / 1e6);
  std::printf("limit of a load: fresh memory is written at %.2f GB/s\n",
              FreshBytesPerSecond(threads) / 1e9);
  std::printf("backend: %s\n", (*model)->backend->info().numerics().c_str());
  return *std::move(model);
}

int Main(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: bench_model [--threads N] [--load-only] [DIR]\n");
    return 2;
  }
  TempDir temporary;
  const std::string dir = options->dir.empty() ? temporary / "llama-430m" : options->dir;
  if (!MakeModel(dir)) return 1;
  const std::unique_ptr<LoadedModel> model = Load(dir, options->threads);
  if (model == nullptr) return 1;
  if (options->load_only) return 0;
  Bench bench{*model, options->threads};
  bench.Prefill(512);
  bench.Decode(1, 256);
  bench.Decode(32, 256);
  PrintMemory("memory after");
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace baton::test

int main(int argc, char** argv) { return baton::test::Main(argc, argv); }
