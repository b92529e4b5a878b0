// Prints the rate of every operation and its share of what this machine can do, measured in the
// same run, at the shape of a 430 M Llama.
//
//   bench_kernels [--isa auto|avx512|avx2] [--dtype bfloat16|float32] [--threads N] [--rounds N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend_factory.h"
#include "kernels/bench/llama_step.h"
#include "kernels/host_memory.h"
#include "kernels/machine_limits.h"

namespace baton::kernels {
namespace {

using Clock = std::chrono::steady_clock;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / 2,
                   values.end());
  return values[values.size() / 2];
}

enum class Limit { kFlops, kBytes };

class Bench {
 public:
  Bench(const BackendInfo& info, int rounds)
      : info_(info), rounds_(rounds), far_(AllocateHost(kFar).value()) {
    std::memset(far_->data(), 1, kFar);
  }

  // Runs `operation` and the limit in turn; prints medians. `amount` is FLOPs or bytes of one run.
  void Line(const std::string& name, Limit limit, double amount,
            const std::function<void()>& operation) {
    operation();
    std::vector<double> seconds;
    std::vector<double> shares;
    for (int round = 0; round < rounds_; ++round) {
      const double best =
          limit == Limit::kFlops
              ? MeasureMachineLimits(info_).flops_per_s
              : ReadRate(static_cast<const std::byte*>(far_->data()), kFar, info_.threads);
      const auto begin = Clock::now();
      operation();
      const double took = std::chrono::duration<double>(Clock::now() - begin).count();
      seconds.push_back(took);
      shares.push_back(amount / took / best);
    }
    const double took = Median(seconds);
    std::printf("%-34s %10.3f ms %9.1f %-7s %5.1f %% of %s\n", name.c_str(), took * 1e3,
                amount / took * 1e-9, limit == Limit::kFlops ? "GFLOP/s" : "GB/s",
                Median(shares) * 100, limit == Limit::kFlops ? "peak" : "read bandwidth");
    std::fflush(stdout);
  }

 private:
  // As much as the weights, so that no cache holds a part that counts.
  static constexpr size_t kFar = size_t{768} << 20;

  const BackendInfo& info_;
  int rounds_;
  std::unique_ptr<Buffer> far_;
};

void BenchMatMuls(Bench& bench, LlamaStep& step) {
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
    const bool few = rows <= 8;
    bench.Line("matmuls of all layers, M = " + std::to_string(rows),
               few ? Limit::kBytes : Limit::kFlops,
               few ? step.weight_bytes() : step.matmul_flops(rows), [&] { step.MatMuls(rows); });
  }
}

void BenchSteps(Bench& bench, LlamaStep& step) {
  bench.Line("prefill of 512 tokens", Limit::kFlops, step.prefill_flops(512), [&] {
    step.Begin(1, 512, 512);
    step.Forward();
  });
  bench.Line("decode, batch 32, context 256", Limit::kFlops,
             step.matmul_flops(32) + step.logit_flops(32), [&] {
               step.Begin(32, 1, 256);
               step.Forward();
             });
  bench.Line("decode, batch 1, context 256", Limit::kBytes, step.weight_bytes(), [&] {
    step.Begin(1, 1, 256);
    step.Forward();
  });
}

void BenchOperations(Bench& bench, LlamaStep& step) {
  step.Begin(1, 512, 512);
  bench.Line("rms_norm, 512 tokens", Limit::kBytes, step.norm_bytes(512), [&] { step.Norm(); });
  bench.Line("silu_mul, 512 tokens", Limit::kBytes, step.silu_bytes(512), [&] { step.Silu(); });
  bench.Line("rope + store, 512 tokens", Limit::kBytes, step.rope_bytes(512), [&] { step.Rope(); });
  bench.Line("embed, 512 tokens", Limit::kBytes, step.embed_bytes(512), [&] { step.Embed(); });
  bench.Line("attention, prefill of 512", Limit::kFlops, step.attention_flops(512),
             [&] { step.Attention(); });
  step.Begin(32, 1, 256);
  bench.Line("attention, 32 x context 256", Limit::kBytes, step.attention_bytes(32, 256),
             [&] { step.Attention(); });
  step.FillLogits();
  const SampleRow greedy;
  bench.Line("sample, greedy, 32 rows", Limit::kBytes, step.logit_bytes(32),
             [&] { step.Sample(greedy); });
  const SampleRow drawn{.temperature = 0.8f, .top_k = 50, .top_p = 0.95f};
  bench.Line("sample, top-k 50 top-p 0.95, 32", Limit::kBytes, step.logit_bytes(32),
             [&] { step.Sample(drawn); });
  const SampleRow nucleus{.temperature = 0.8f, .top_p = 0.95f};
  bench.Line("sample, top-p 0.95, 32", Limit::kBytes, step.logit_bytes(32),
             [&] { step.Sample(nucleus); });
}

int Run(const BackendOptions& options, int rounds) {
  auto backend = MakeBackend(options);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 2;
  }
  const BackendInfo& info = (*backend)->info();
  const MachineLimits limits = MeasureMachineLimits(info);
  std::printf("%s, %d threads: peak %.1f GFLOP/s, read %.1f GB/s; medians of %d\n",
              info.numerics().c_str(), info.threads, limits.flops_per_s * 1e-9,
              limits.read_bytes_per_s * 1e-9, rounds);
  const auto begin = Clock::now();
  LlamaStep step(**backend);
  std::printf("packed %.0f MB and prepared in %.2f s\n", step.weight_bytes() * 1e-6,
              std::chrono::duration<double>(Clock::now() - begin).count());
  Bench bench(info, rounds);
  BenchMatMuls(bench, step);
  BenchSteps(bench, step);
  BenchOperations(bench, step);
  return 0;
}

}  // namespace
}  // namespace baton::kernels

int main(int argc, char** argv) {
  baton::kernels::BackendOptions options{.compute_dtype = baton::kernels::DType::kBF16};
  int rounds = 7;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--isa") {
      options.isa = value;
    } else if (flag == "--dtype" && std::strcmp(value, "float32") == 0) {
      options.compute_dtype = baton::kernels::DType::kF32;
    } else if (flag == "--dtype" && std::strcmp(value, "bfloat16") == 0) {
      options.compute_dtype = baton::kernels::DType::kBF16;
    } else if (flag == "--threads" && std::atoi(value) > 0) {
      options.threads = std::atoi(value);
    } else if (flag == "--rounds" && std::atoi(value) > 0) {
      rounds = std::atoi(value);
    } else {
      std::fprintf(stderr,
                   "unknown or incomplete '%s %s'; usage: bench_kernels [--isa auto|avx512|avx2] "
                   "[--dtype bfloat16|float32] [--threads N] [--rounds N]\n",
                   flag.c_str(), value);
      return 2;
    }
  }
  return baton::kernels::Run(options, rounds);
}
