#include "tests/common/model/step_timing.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <span>

#include "common/base/clock.h"
#include "common/model/footprint.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/sample.h"

namespace baton::test {

double Seconds(const std::function<void()>& work) {
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  work();
  return base::Seconds(clock.Now() - begin);
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

namespace {

constexpr int kRounds = 5;
constexpr int32_t kStepsAhead = 64;  // of a round with two steps out
constexpr int32_t kSteps = 15;       // one at a time

double MedianSeconds(int count, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) seconds.push_back(Seconds(work));
  std::nth_element(seconds.begin(), seconds.begin() + count / 2, seconds.end());
  return seconds[static_cast<size_t>(count / 2)];
}

std::vector<TestSequence*> Pointers(std::vector<TestSequence>& sequences) {
  std::vector<TestSequence*> pointers;
  for (TestSequence& sequence : sequences) pointers.push_back(&sequence);
  return pointers;
}

}  // namespace

void StepTiming::SetLimits(const kernels::MachineLimits& limits) {
  limits_ = limits;
  std::printf("limits: copy %.1f GB/s, matmul %.1f GFLOP/s\n", limits.read_bytes_per_s / 1e9,
              limits.flops_per_s / 1e9);
  figures_["limits"] = {{"copy_bytes_per_s", limits.read_bytes_per_s},
                        {"matmul_flops_per_s", limits.flops_per_s}};
}

std::vector<TestSequence> StepTiming::Prompts(int32_t count, int32_t tokens) const {
  std::vector<TestSequence> sequences(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    std::vector<TokenId>& prompt = sequences[static_cast<size_t>(i)].prompt;
    for (int32_t p = 0; p < tokens; ++p) prompt.push_back((p * 7 + i) % 256);
  }
  return sequences;
}

void StepTiming::Prefill(int32_t count, int32_t tokens) {
  RunnerDriver driver(model_);
  std::vector<TestSequence> sequences = Prompts(count, tokens);
  const std::vector<TestSequence*> pointers = Pointers(sequences);
  const double cpu_begin = CpuSeconds();
  const double seconds = MedianSeconds(kRounds, [&] {
    for (TestSequence& sequence : sequences) {
      driver.Preempt(sequence);
      sequence.output.clear();
    }
    driver.Step(pointers, tokens);
  });
  const double cpu = (CpuSeconds() - cpu_begin) / kRounds;
  const double flops = count * ExecutedPrefillFlops(model_.config, tokens);
  const double all = static_cast<double>(count) * tokens;
  std::printf("prefill %d x %d tokens: %.1f ms, %.0f tokens/s, %.1f GFLOP/s", count, tokens,
              1e3 * seconds, all / seconds, flops / seconds / 1e9);
  nlohmann::json figure = {{"count", count},
                           {"tokens", tokens},
                           {"ms", 1e3 * seconds},
                           {"tokens_per_s", all / seconds},
                           {"flops_per_s", flops / seconds}};
  if (limits_.flops_per_s > 0) {
    const double share = flops / seconds / limits_.flops_per_s;
    std::printf(", %.1f %% of the matmul rate\n", 100 * share);
    figure["share_of_matmul"] = share;
  } else {
    std::printf("; %.1f GFLOP per CPU second\n", flops / cpu / 1e9);
  }
  figures_["prefill"].push_back(figure);
}

double StepTiming::SecondsPerStep(RunnerDriver& driver,
                                  const std::vector<TestSequence*>& sequences) {
  if (model_.runner->max_in_flight() < 2) {
    return MedianSeconds(kSteps, [&] { driver.Step(sequences, 1); });
  }
  driver.DecodeAhead(sequences, 3);  // captures what it repeats from then on
  return MedianSeconds(kRounds, [&] { driver.DecodeAhead(sequences, kStepsAhead); }) / kStepsAhead;
}

double StepTiming::DecodeBytes(int32_t batch, double context) const {
  double weights = 0;
  for (const kernels::PackedWeight* weight : model_.transformer->weights().projections()) {
    weights += static_cast<double>(weight->bytes());
  }
  return weights + static_cast<double>(model_.kv().layout.bytes_per_token()) * batch * context;
}

double StepTiming::Decode(int32_t batch, int32_t context) {
  RunnerDriver driver(model_);
  std::vector<TestSequence> sequences = Prompts(batch, context);
  const int32_t together = std::max(1, model_.transformer->limits().max_tokens / context);
  std::vector<TestSequence*> pointers = Pointers(sequences);
  for (size_t begin = 0; begin < pointers.size(); begin += static_cast<size_t>(together)) {
    const size_t end = std::min(pointers.size(), begin + static_cast<size_t>(together));
    driver.Step({pointers.begin() + static_cast<ptrdiff_t>(begin),
                 pointers.begin() + static_cast<ptrdiff_t>(end)},
                context);
  }
  const double seconds = SecondsPerStep(driver, pointers);
  const double grown = 0.5 * (sequences[0].computed + context);  // on average
  const double bytes = DecodeBytes(batch, grown);
  std::printf("decode batch %d at %d tokens: %.3f ms, %.0f tokens/s, %.1f GB/s read", batch,
              context, 1e3 * seconds, batch / seconds, bytes / seconds / 1e9);
  nlohmann::json figure = {{"batch", batch},
                           {"context", context},
                           {"mean_context", grown},
                           {"ms", 1e3 * seconds},
                           {"tokens_per_s", batch / seconds},
                           {"bytes_per_s", bytes / seconds}};
  if (limits_.read_bytes_per_s > 0) {
    const double share = bytes / seconds / limits_.read_bytes_per_s;
    std::printf(", %.1f %% of the copy bandwidth", 100 * share);
    figure["share_of_copy"] = share;
  }
  std::printf("\n");
  figures_["decode"].push_back(figure);
  return seconds;
}

void StepTiming::EosFigures(int32_t batch, double step_seconds) {
  const auto isa = kernels::cpu::ChooseIsa("auto", kernels::DType::kF32);
  if (!isa.ok()) return;
  const kernels::cpu::SampleOps with = kernels::cpu::ChooseSampleOps(*isa);
  kernels::cpu::SampleOps without = with;
  without.exp_sums = [](std::span<const float>, float, int32_t) {
    return kernels::cpu::ExpSums{.total = 1};
  };
  const auto vocab = static_cast<size_t>(model_.config.vocab);
  std::mt19937 random(1);
  std::normal_distribution<float> logit(0, 3);
  std::vector<float> logits(vocab * static_cast<size_t>(batch));
  for (float& x : logits) x = logit(random);
  const std::vector<int32_t> eos = {2};
  const kernels::SampleRow row{.eos_ids = eos, .stop_ids = eos};
  // Of all rows one after the other: a step divides them among its threads.
  const auto seconds = [&](const kernels::cpu::SampleOps& ops) {
    kernels::cpu::RowSampler sampler(ops);
    SampledToken token;
    return MedianSeconds(4 * kRounds, [&] {
      for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
        sampler.Run(row, std::span(logits).subspan(i * vocab, vocab), token);
      }
    });
  };
  const double bare = seconds(without);
  const double figures = seconds(with) - bare;
  const double share = figures / model_.threads() / step_seconds;
  std::printf(
      "EOS figures of %d rows: %.3f ms of one thread beside %.3f ms of greedy sampling; %.2f %% of "
      "the step\n",
      batch, 1e3 * figures, 1e3 * bare, 100 * share);
  figures_["eos_figures"] = {{"batch", batch}, {"ms", 1e3 * figures}, {"share_of_step", share}};
}

}  // namespace baton::test
