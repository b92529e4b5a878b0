// Prints the rate of every operation and its share of what this machine can do, measured in the
// same run, at the shape of a 430 M Llama, on a GPU of Llama-3.1-8B.
//
//   bench_kernels [--device cpu|cuda] [--isa auto|amx|avx512_bf16|avx512|avx2]
//                 [--dtype bfloat16|float16|float32] [--threads N] [--rounds N]
//                 [--shape llama-8b|llama-430m|tiny]
//                 [--only matmuls,steps,operations] [--quantization none|fp8]
//                 [--weights none|w4|w8|q4_k|q6_k] [--group 32|64|128] [--kv-dtype DTYPE]
//                 [--context N] [--rows N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
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

enum class Limit { kFlops, kProducts, kBytes };  // kProducts: FLOPs of products by weights

// The sizes of what is measured, which are smaller on a CPU.
struct Sizes {
  LlamaShape model;
  std::vector<int> matmul_rows;
  int prefill_sequences = 0;
  int prefill_tokens = 0;  // of each
  int batch = 0;
  int context = 0;
};

// The sizes for a shape of that name; no layers when there is none.
Sizes SizesFor(const std::string& shape) {
  if (shape == "llama-8b") {
    return {kLlama8B, {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 8192}, 8, 1024, 64, 1024};
  }
  if (shape == "llama-430m") {
    return {kSmallLlama, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, 1, 512, 32, 256};
  }
  if (shape == "tiny") return {kTinyLlama, {1, 8, 128}, 2, 64, 8, 64};
  return {};
}

class Bench {
 public:
  Bench(const BackendInfo& info, bool integers, int rounds)
      : info_(info), integers_(integers), rounds_(rounds) {
    if (HasOwnMemory(info_.device)) return;
    far_ = AllocateHost(kFar).value();
    std::memset(far_->data(), 1, kFar);
  }

  // Runs `operation` and the measurement of the limit in turn, and prints medians. `amount` is the
  // FLOPs or bytes of one run. The limit of a device with its own memory is measured once, because
  // nobody else uses it.
  void Line(const std::string& name, Limit limit, double amount,
            const std::function<void()>& operation) {
    operation();
    operation();  // of a captured step
    std::vector<double> seconds;
    std::vector<double> shares;
    for (int round = 0; round < rounds_; ++round) {
      const double best = Best(limit);
      const auto begin = Clock::now();
      for (int i = 0; i < repeats(); ++i) operation();
      const double took = std::chrono::duration<double>(Clock::now() - begin).count() / repeats();
      seconds.push_back(took);
      shares.push_back(amount / took / best);
    }
    const double took = Median(seconds);
    std::printf("%-34s %10.3f ms %9.1f %-7s %5.1f %% of %s\n", name.c_str(), took * 1e3,
                amount / took * 1e-9, limit != Limit::kBytes ? "GFLOP/s" : "GB/s",
                Median(shares) * 100,
                limit != Limit::kBytes ? "peak"
                : far_ == nullptr      ? "copy bandwidth"
                                       : "read bandwidth");
    std::fflush(stdout);
  }

  void SetLimits(const MachineLimits& limits) { limits_ = limits; }

  // The same, held against whichever limit leaves the operation less: reading `bytes` or computing
  // `flops`.
  void NearerLimit(const std::string& name, double bytes, double flops,
                   const std::function<void()>& operation) {
    const bool reads = bytes / limits_.read_bytes_per_s > flops / limits_.flops_per_s;
    Line(name, reads ? Limit::kBytes : Limit::kProducts, reads ? bytes : flops, operation);
  }

 private:
  // About the size of the weights, so that no cache holds a part of it that counts.
  static constexpr size_t kFar = size_t{768} << 20;

  double Best(Limit limit) const {
    if (far_ == nullptr) {
      return limit != Limit::kBytes ? limits_.flops_per_s : limits_.read_bytes_per_s;
    }
    return limit != Limit::kBytes
               ? MeasureMachineLimits(info_, integers_ && limit == Limit::kProducts).flops_per_s
               : ReadRate(static_cast<const std::byte*>(far_->data()), kFar, info_.threads);
  }
  int repeats() const { return far_ == nullptr ? 5 : 1; }

  const BackendInfo& info_;
  bool integers_;
  int rounds_;
  MachineLimits limits_;
  std::unique_ptr<Buffer> far_;
};

void BenchMatMuls(Bench& bench, LlamaStep& step, const Sizes& sizes) {
  for (const int rows : sizes.matmul_rows) {
    bench.NearerLimit("matmuls of all layers, M = " + std::to_string(rows), step.matmul_bytes(rows),
                      step.matmul_flops(rows), [&] {
                        step.MatMuls(rows);
                        step.Finish();
                      });
  }
}

void BenchSteps(Bench& bench, LlamaStep& step, const Sizes& sizes) {
  const int prefill = sizes.prefill_sequences;
  const int tokens = sizes.prefill_tokens;
  bench.Line("prefill of " + std::to_string(prefill) + " x " + std::to_string(tokens),
             Limit::kProducts, prefill * step.prefill_flops(tokens, tokens), [&] {
               step.Begin(prefill, tokens, tokens);
               step.Forward();
             });
  if (sizes.context > tokens) {
    bench.Line("prefill, last " + std::to_string(tokens) + " of " + std::to_string(sizes.context),
               Limit::kProducts, step.prefill_flops(tokens, sizes.context), [&] {
                 step.Begin(1, tokens, sizes.context);
                 step.Forward();
               });
  }
  std::vector<int> batches = {sizes.batch};
  // The KV cache may have no room for more sequences than the first batch has.
  for (const int fewer : {8, 1}) {
    if (fewer < sizes.batch) batches.push_back(fewer);
  }
  for (const int batch : batches) {
    const double bytes =
        step.weight_bytes() + sizes.model.layers * step.attention_bytes(batch, sizes.context);
    bench.NearerLimit(
        "decode, batch " + std::to_string(batch) + ", context " + std::to_string(sizes.context),
        bytes, step.matmul_flops(batch) + step.logit_flops(batch), [&] {
          step.Begin(batch, 1, sizes.context);
          step.Forward();
        });
  }
}

// Measures single operations, each in a step of its own; on a device the copy of the step's inputs
// counts as well.
void BenchOperations(Bench& bench, LlamaStep& step, const Sizes& sizes) {
  const int prefill = sizes.prefill_sequences;
  const int tokens = sizes.prefill_tokens;
  const int rows = prefill * tokens;
  const std::string of = ", " + std::to_string(rows) + " tokens";
  const auto line = [&](const std::string& name, Limit limit, double amount, auto operation) {
    bench.Line(name, limit, amount, [&, operation] {
      step.Begin(prefill, tokens, tokens);
      operation();
      step.Finish();
    });
  };
  line("rms_norm" + of, Limit::kBytes, step.norm_bytes(rows), [&] { step.Norm(); });
  line("silu_mul" + of, Limit::kBytes, step.silu_bytes(rows), [&] { step.Silu(); });
  line("rope + store" + of, Limit::kBytes, step.rope_bytes(rows), [&] { step.Rope(); });
  line("embed" + of, Limit::kBytes, step.embed_bytes(rows), [&] { step.Embed(); });
  line("attention, prefill of " + std::to_string(prefill) + " x " + std::to_string(tokens),
       Limit::kFlops, prefill * step.attention_flops(tokens, tokens), [&] { step.Attention(); });
  if (sizes.context > tokens) {
    const double flops = step.attention_flops(tokens, sizes.context);
    bench.Line("attention, last " + std::to_string(tokens) + " of " + std::to_string(sizes.context),
               Limit::kFlops, flops, [&] {
                 step.Begin(1, tokens, sizes.context);
                 step.Attention();
                 step.Finish();
               });
  }
  const std::string batch = std::to_string(sizes.batch);
  bench.Line("attention, " + batch + " x context " + std::to_string(sizes.context), Limit::kBytes,
             step.attention_bytes(sizes.batch, sizes.context), [&] {
               step.Begin(sizes.batch, 1, sizes.context);
               step.Attention();
               step.Finish();
             });
  // A sequence takes at least one block.
  const int probed = std::min(64, sizes.model.kv_tokens / LlamaStep::kBlock);
  bench.Line("probe of 64 directions, " + std::to_string(probed), Limit::kFlops,
             step.probe_flops(probed), [&] {
               step.Begin(probed, 1, 1);
               step.Probe();
             });
  step.Begin(sizes.batch, 1, sizes.context);
  step.Finish();
  step.FillLogits();
  const auto sample = [&](const std::string& name, const SampleRow& row) {
    bench.Line("sample, " + name + ", " + batch, Limit::kBytes, step.logit_bytes(sizes.batch),
               [&] { step.Sample(row); });
  };
  sample("greedy", {});
  sample("top-k 50 top-p 0.95", {.temperature = 0.8f, .top_k = 50, .top_p = 0.95f});
  sample("top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f});
}

// What --weights says; the types of GGUF have groups of their own.
std::optional<StoredIntegers> StoredAs(const std::string& weights, int group) {
  if (weights == "none") return StoredIntegers{};
  if (weights == "w4") return StoredIntegers{.bits = 4, .group = group > 0 ? group : 128};
  if (weights == "w8") return StoredIntegers{.bits = 8, .group = group > 0 ? group : 128};
  if (weights == "q4_k") {
    return StoredIntegers{.bits = 4, .group = 32, .unit_groups = 8, .minimums = true};
  }
  if (weights == "q6_k") return StoredIntegers{.bits = 8, .group = 16, .unit_groups = 16};
  return std::nullopt;
}

struct RunOptions {
  BackendOptions backend{.compute_dtype = DType::kBF16};
  std::string weights = "none";
  int group = 0;  // of w4 and w8; 0: 128
  int rounds = 7;
  std::string shape;  // empty: by the device
  std::optional<DType> kv_dtype;
  int context = 0;  // of decode and of a prompt's end; 0: the shape's own
  int rows = 0;     // of products; 0: the shape's own numbers
  std::string only = "matmuls,steps,operations";
};

int Run(const RunOptions& run) {
  const BackendOptions& options = run.backend;
  const int rounds = run.rounds;
  const StoredIntegers stored = *StoredAs(run.weights, run.group);
  auto backend = MakeBackend(options);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 2;
  }
  const BackendInfo& info = (*backend)->info();
  const auto limits = MeasureLimits(**backend, info.threads, stored.bits != 0);
  if (!limits.ok()) {
    std::fprintf(stderr, "%s\n", limits.status().ToString().c_str());
    return 2;
  }
  std::printf("%s, %d threads: peak %.1f GFLOP/s, %s %.1f GB/s; medians of %d\n",
              info.numerics().c_str(), info.threads, limits->flops_per_s * 1e-9,
              HasOwnMemory(info.device) ? "copy" : "read", limits->read_bytes_per_s * 1e-9, rounds);
  const std::string by_device = HasOwnMemory(info.device) ? "llama-8b" : "llama-430m";
  Sizes sizes = SizesFor(run.shape.empty() ? by_device : run.shape);
  if (run.rows > 0) sizes.matmul_rows = {std::min(run.rows, sizes.model.max_tokens)};
  if (run.context > 0) {
    sizes.context =
        std::min(run.context, sizes.model.kv_tokens / LlamaStep::kBlock * LlamaStep::kBlock);
    // A sequence takes whole blocks.
    const int blocks = (sizes.context + LlamaStep::kBlock - 1) / LlamaStep::kBlock;
    sizes.batch = std::min(sizes.batch, sizes.model.kv_tokens / (blocks * LlamaStep::kBlock));
  }
  const auto begin = Clock::now();
  LlamaStep step(**backend, sizes.model, stored, run.kv_dtype);
  std::printf("packed %.0f MB and prepared in %.2f s\n", step.weight_bytes() * 1e-6,
              std::chrono::duration<double>(Clock::now() - begin).count());
  Bench bench(info, stored.bits != 0, rounds);
  bench.SetLimits(*limits);
  const auto wanted = [&](const char* group) { return run.only.find(group) != std::string::npos; };
  if (wanted("matmuls")) BenchMatMuls(bench, step, sizes);
  if (wanted("steps")) BenchSteps(bench, step, sizes);
  if (wanted("operations")) BenchOperations(bench, step, sizes);
  return 0;
}

bool IsGroups(const std::string& list) {
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string group = list.substr(at, end - at);
    if (group != "matmuls" && group != "steps" && group != "operations") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace
}  // namespace baton::kernels

int main(int argc, char** argv) {
  baton::kernels::RunOptions run;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    const auto device = baton::kernels::ParseDevice(value);
    const auto dtype = baton::kernels::ParseDType(value);
    const auto kv_dtype = baton::kernels::ParseKvDType(value);
    const auto quantization = baton::kernels::ParseQuantization(value);
    if (flag == "--device" && device.has_value()) {
      run.backend.device = *device;
    } else if (flag == "--isa") {
      run.backend.isa = value;
    } else if (flag == "--dtype" && dtype.has_value()) {
      run.backend.compute_dtype = *dtype;
    } else if (flag == "--kv-dtype" && kv_dtype.has_value()) {
      run.kv_dtype = *kv_dtype;
    } else if (flag == "--context" && std::atoi(value) > 0) {
      run.context = std::atoi(value);
    } else if (flag == "--rows" && std::atoi(value) > 0) {
      run.rows = std::atoi(value);
    } else if (flag == "--quantization" && quantization.has_value()) {
      run.backend.quantization = *quantization;
    } else if (flag == "--weights" && baton::kernels::StoredAs(value, run.group).has_value()) {
      run.weights = value;
    } else if (flag == "--group" &&
               (std::atoi(value) == 32 || std::atoi(value) == 64 || std::atoi(value) == 128)) {
      run.group = std::atoi(value);
    } else if (flag == "--threads" && std::atoi(value) > 0) {
      run.backend.threads = std::atoi(value);
    } else if (flag == "--rounds" && std::atoi(value) > 0) {
      run.rounds = std::atoi(value);
    } else if (flag == "--shape" && baton::kernels::SizesFor(value).batch > 0) {
      run.shape = value;
    } else if (flag == "--only" && baton::kernels::IsGroups(value)) {
      run.only = value;
    } else {
      std::fprintf(stderr,
                   "unknown or incomplete '%s %s'; usage: bench_kernels [--device cpu|cuda] "
                   "[--isa auto|amx|avx512_bf16|avx512|avx2] [--dtype bfloat16|float16|float32] "
                   "[--threads N] "
                   "[--rounds N] [--shape llama-8b|llama-430m|tiny] "
                   "[--only matmuls,steps,operations] [--quantization none|fp8] "
                   "[--weights none|w4|w8|q4_k|q6_k] [--group 32|64|128] "
                   "[--kv-dtype float32|bfloat16|float16|int8|fp8] [--context N] [--rows N]\n",
                   flag.c_str(), value);
      return 2;
    }
  }
  if (run.group > 0 && run.weights != "w4" && run.weights != "w8") {
    std::fprintf(stderr, "--group is of --weights w4 and w8, and here is --weights %s\n",
                 run.weights.c_str());
    return 2;
  }
  return baton::kernels::Run(run);
}
