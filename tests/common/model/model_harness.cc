#include "tests/common/model/model_harness.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>

#include "common/base/check.h"
#include "common/sample/ngram_index.h"
#include "tests/fakes/sanitized.h"

namespace baton::test {

std::vector<Device> CpuDevices() {
  // Sanitizers see the AVX2 kernels in their own tests, over more shapes than a model has; a whole
  // model takes them ten times as long there as with the library's products. Plain builds run both.
  std::vector<Device> devices = {{"cpu", "auto"}};
  if (!kSanitized) devices.push_back({"cpu", "avx2"});
  return devices;
}

std::vector<Device> AllDevices() {
  std::vector<Device> devices = CpuDevices();
  devices.insert(devices.begin(), {"reference", "auto"});
  return devices;
}

std::string DeviceName(const Device& device) {
  return device.device == "reference" ? "reference" : device.device + "_" + device.isa;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(const std::string& dir, const Device& device,
                                                     const std::string& dtype, int32_t max_tokens,
                                                     const std::string& kv_dtype,
                                                     const std::optional<EosProbe>& probe,
                                                     int64_t swap_bytes) {
  ModelOptions options;
  options.device = *kernels::ParseDevice(device.device);
  options.isa = device.isa;
  options.dtype = kernels::ParseDType(dtype);
  options.kv_dtype = kernels::ParseKvDType(kv_dtype);
  options.threads = 2;
  options.kv.tokens = 8192;
  options.limits = {.max_tokens = max_tokens, .max_samples = 64};
  options.probe = probe;
  options.swap_bytes = swap_bytes;
  return LoadModel(dir, options, nullptr);
}

std::unique_ptr<LoadedModel> MustLoad(const std::string& dir, const Device& device,
                                      const std::string& dtype, int32_t max_tokens,
                                      const std::string& kv_dtype,
                                      const std::optional<EosProbe>& probe, int64_t swap_bytes) {
  auto model = TryLoad(dir, device, dtype, max_tokens, kv_dtype, probe, swap_bytes);
  BATON_CHECK(model.ok()) << dir << " on " << DeviceName(device) << ": "
                          << model.status().ToString();
  return std::move(model).value();
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadOnRanks(const std::string& dir,
                                                         const Device& device, kernels::DType dtype,
                                                         int32_t ranks, const std::string& cache) {
  ModelOptions options;
  options.device = *kernels::ParseDevice(device.device);
  options.isa = device.isa;
  options.dtype = dtype;
  options.threads = 2;
  options.tensor_parallel_size = ranks;
  options.kv.tokens = 8192;
  options.limits = {.max_tokens = 512, .max_samples = 64};
  options.load_cache = cache;
  return LoadModel(dir, options, nullptr);
}

EosProbe ElementsOfState(int32_t hidden, std::optional<int32_t> layer) {
  EosProbe probe = {.hidden = hidden, .dims = std::min(hidden, kMaxEosProbeDims), .layer = layer};
  probe.directions.resize(static_cast<size_t>(probe.dims * hidden));
  for (int32_t d = 0; d < probe.dims; ++d) probe.directions[d * hidden + d] = 1;
  return probe;
}

RunnerDriver::RunnerDriver(LoadedModel& model) : model_(model) {
  // A stride that is coprime to the number of blocks visits them all, far apart.
  const int32_t count = model.kv().num_blocks;
  for (int32_t i = 0; i < count; ++i) free_.push_back(BlockId(i * 7 % count));
  BATON_CHECK(count % 7 != 0) << count;
}

void RunnerDriver::Reserve(TestSequence& sequence, int32_t tokens) {
  const int32_t block_size = model_.kv().layout.block_size;
  while (static_cast<int32_t>(sequence.blocks.size()) * block_size < tokens) {
    BATON_CHECK(!free_.empty());
    sequence.blocks.push_back(free_.back());
    free_.pop_back();
  }
}

void RunnerDriver::Step(const std::vector<TestSequence*>& sequences, int32_t chunk) {
  StepPlan plan;
  plan.step = ++steps_;
  std::vector<std::vector<TokenId>> ids(sequences.size());
  std::vector<std::vector<TokenId>> banned(sequences.size());
  std::vector<TestSequence*> sampled;
  for (size_t i = 0; i < sequences.size(); ++i) {
    TestSequence& s = *sequences[i];
    ids[i] = s.prompt;
    ids[i].insert(ids[i].end(), s.output.begin(), s.output.end());
    const int32_t total = static_cast<int32_t>(ids[i].size());
    const int32_t count = std::min(chunk, total - s.computed);
    Reserve(s, s.computed + count);
    StepRow row;
    row.sequence = SequenceId(i);
    row.tokens = std::span(ids[i]).subspan(s.computed, count);
    row.first_position = s.computed;
    row.blocks = s.blocks;
    if (s.computed + count == total) {
      kernels::SampleRow& draw = row.draws.emplace_back(s.sampling);
      draw.prompt = s.prompt;
      draw.output = s.output;
      NgramIndex ngrams(s.no_repeat_ngram_size);
      const auto bans = ngrams.BannedAfter(ids[i]);
      banned[i].assign(bans.begin(), bans.end());
      draw.banned_ids = banned[i];
      sampled.push_back(&s);
      ++plan.num_samples;
    }
    s.computed += count;
    plan.num_tokens += count;
    plan.rows.push_back(row);
  }
  largest_batch_ = std::max(largest_batch_, static_cast<int32_t>(plan.rows.size()));
  const absl::Status submitted = model_.runner->Submit(plan);
  BATON_CHECK(submitted.ok()) << submitted.ToString();
  absl::StatusOr<StepOutput> output = model_.runner->Wait();
  BATON_CHECK(output.ok()) << output.status().ToString();
  BATON_CHECK(output->samples.size() == sampled.size());
  for (size_t i = 0; i < sampled.size(); ++i) {
    sampled[i]->output.push_back(output->samples[i].token);
    sampled[i]->samples.push_back(std::move(output->samples[i]));
  }
}

StepPlan RunnerDriver::PlanAhead(const std::vector<TestSequence*>& sequences, bool pending) {
  StepPlan plan;
  plan.step = static_cast<uint64_t>(++steps_);
  for (size_t i = 0; i < sequences.size(); ++i) {
    TestSequence& s = *sequences[i];
    StepRow row;
    row.sequence = SequenceId(i);
    row.slot = static_cast<int32_t>(i);
    row.feeds_sampled = pending;
    if (!pending) row.tokens = std::span(s.output).last(1);
    row.first_position = s.computed++;
    row.blocks = s.blocks;
    kernels::SampleRow& draw = row.draws.emplace_back(s.sampling);
    draw.prompt = s.prompt;
    draw.output = s.output;
    draw.pending_output = pending;
    draw.slot = row.slot;
    plan.rows.push_back(row);
  }
  plan.num_tokens = plan.num_samples = static_cast<int32_t>(sequences.size());
  return plan;
}

void RunnerDriver::DecodeAhead(const std::vector<TestSequence*>& sequences, int32_t steps) {
  BATON_CHECK(model_.runner->max_in_flight() == 2);
  for (TestSequence* s : sequences) {
    Reserve(*s, s->computed + steps);
    s->output.reserve(s->output.size() + static_cast<size_t>(steps));  // rows keep spans of it
  }
  std::deque<StepPlan> plans;
  const auto finish = [&] {
    absl::StatusOr<StepOutput> output = model_.runner->Wait();
    BATON_CHECK(output.ok()) << output.status().ToString();
    plans.pop_front();
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i]->output.push_back(output->samples[i].token);
      sequences[i]->samples.push_back(std::move(output->samples[i]));
    }
  };
  for (int32_t step = 0; step < steps; ++step) {
    plans.push_back(PlanAhead(sequences, step > 0));
    const absl::Status submitted = model_.runner->Submit(plans.back());
    BATON_CHECK(submitted.ok()) << submitted.ToString();
    if (plans.size() == 2) finish();
  }
  while (!plans.empty()) finish();
}

void RunnerDriver::Generate(const std::vector<TestSequence*>& sequences, int32_t count,
                            int32_t chunk) {
  while (true) {
    std::vector<TestSequence*> unfinished;
    for (TestSequence* s : sequences) {
      if (static_cast<int32_t>(s->output.size()) < count) unfinished.push_back(s);
    }
    if (unfinished.empty()) return;
    Step(unfinished, chunk);
  }
}

void RunnerDriver::Preempt(TestSequence& sequence) {
  // Freed blocks are taken again first, in another order.
  free_.insert(free_.end(), sequence.blocks.begin(), sequence.blocks.end());
  sequence.blocks.clear();
  sequence.computed = 0;
}

double SharedBegin(const std::vector<std::vector<TokenId>>& a,
                   const std::vector<std::vector<TokenId>>& b) {
  BATON_CHECK(a.size() == b.size()) << a.size() << " " << b.size();
  int64_t shared = 0;
  size_t tokens = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    shared +=
        std::mismatch(a[i].begin(), a[i].end(), b[i].begin(), b[i].end()).first - a[i].begin();
    tokens += a[i].size();
  }
  return static_cast<double>(shared) / static_cast<double>(tokens);
}

}  // namespace baton::test
