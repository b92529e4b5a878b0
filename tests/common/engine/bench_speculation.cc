// What speculation is worth when a given share of what is foretold is right: answers of a model are
// generated token by token, then again with their own tokens as proposals, of which all but that
// share are made wrong.
//   bench_speculation [--threads N] [--batch N[,N...]] [--shares S[,S...]] [--tokens N]
//                     [--foretold N] [--together N] [--rounds N] [--json] [DIR]
// Without DIR it makes a Llama of 430 M parameters with random weights. The scheduler, the pace of
// proposals and the runner are those of a worker; `together` is its
// --speculative-disable-by-batch-size.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/model/load_model.h"
#include "common/model/random/random_model.h"
#include "common/sched/scheduler.h"
#include "common/speculate/proposal_pace.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/bench_shape.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

constexpr int32_t kPromptTokens = 64;
constexpr int32_t kPoolTokens = 16384;

struct Options {
  int threads = 0;
  std::vector<int32_t> batches = {1, 4, 16};
  std::vector<double> shares = {0.5, 0.7, 0.9};
  int32_t tokens = 96;    // of each answer
  int32_t foretold = 5;   // for one answer at once
  int32_t together = 32;  // answers and what is foretold for them
  int32_t rounds = 3;
  bool json = false;
  std::string dir;
};

using Answers = std::vector<std::vector<TokenId>>;

// Counted from the first step of which nobody is at the prompt any more.
struct Outcome {
  Answers answers;
  double seconds = 0;
  int64_t tokens = 0, steps = 0;
  uint64_t rows = 0, proposed = 0, accepted = 0;

  double TokensPerSecond() const { return static_cast<double>(tokens) / seconds; }
};

SequenceSpec Request(int32_t index, const Options& options, int32_t vocab) {
  std::mt19937 random(static_cast<uint32_t>(index) + 1);
  SequenceSpec spec;
  for (int32_t i = 0; i < kPromptTokens; ++i) {
    spec.prompt.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(vocab)));
  }
  spec.stop.max_tokens = options.tokens;
  spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  spec.sampling.temperature = 1;
  spec.sampling.seed = 1 + static_cast<uint64_t>(index);
  return spec;
}

// Foretells answers that are known: each id is right with the given chance, and where one is wrong
// no later one matters.
class Foreteller {
 public:
  Foreteller(const Answers* answers, double share, int32_t most, int32_t vocab)
      : answers_(answers), share_(share), most_(most), vocab_(vocab) {}

  std::span<const TokenId> operator()(const ProposalRequest& asked) {
    const auto index = static_cast<size_t>(asked.sequence.value() - 1);
    const auto length = static_cast<int64_t>(asked.history.size());
    ProposalPace& pace = paces_.try_emplace(index, most_).first->second;
    const int32_t count = std::min(asked.most, pace.Next(length, asked.fed, asked.accepted));
    const std::vector<TokenId>& answer = (*answers_)[index];
    const size_t known = asked.history.size() - kPromptTokens;
    ids_.clear();
    for (size_t at = known; at < answer.size() && std::ssize(ids_) < count; ++at) {
      const bool right = chance_(random_) < share_;
      ids_.push_back(right ? answer[at] : (answer[at] + 1) % vocab_);
    }
    return ids_;
  }

 private:
  const Answers* const answers_;
  const double share_;
  const int32_t most_;
  const int32_t vocab_;
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> chance_{0, 1};
  std::unordered_map<size_t, ProposalPace> paces_;
  std::vector<TokenId> ids_;
};

SchedulerOptions OptionsOf(const LoadedModel& model, const Options& options, int32_t batch,
                           bool foretells) {
  const int32_t block_size = model.kv().layout.block_size;
  SchedulerOptions scheduler = {.limits = {.max_model_len = model.config.max_positions,
                                           .pool_tokens = model.kv().num_blocks * block_size,
                                           .vocab_size = model.config.vocab,
                                           .block_size = block_size},
                                .block_size = block_size,
                                .max_num_seqs = batch};
  if (foretells) scheduler.proposals = {.most = options.foretold, .batch = options.together};
  scheduler.max_draws = MaxDraws(batch, scheduler.proposals, false);
  return scheduler;
}

// Generates `batch` answers; with `known`, by verifying a share of them that is right.
Outcome Generate(LoadedModel& model, const Options& options, int32_t batch, const Answers* known,
                 double share) {
  const SchedulerOptions scheduling = OptionsOf(model, options, batch, known != nullptr);
  const base::SteadyClock clock;
  BlockPool pool(model.kv().num_blocks);
  PrefixCache cache(&pool, scheduling.block_size);
  Scheduler scheduler(scheduling, &pool, &cache);
  std::optional<Foreteller> foreteller;
  if (known != nullptr) foreteller.emplace(known, share, options.foretold, model.config.vocab);
  Outcome outcome;
  outcome.answers.resize(static_cast<size_t>(batch));
  for (int32_t i = 0; i < batch; ++i) {
    scheduler.Add(SequenceId(static_cast<uint64_t>(i) + 1), Request(i, options, model.config.vocab),
                  clock.Now());
  }
  base::Instant begin{};
  int32_t begun = 0;
  while (scheduler.live() > 0) {
    const bool timed = begun == batch;
    if (timed && outcome.steps++ == 0) begin = clock.Now();
    if (timed && foreteller) {
      scheduler.Propose([&](const ProposalRequest& asked) { return (*foreteller)(asked); });
    }
    const StepPlan plan = scheduler.Plan(clock.Now());
    BATON_CHECK(model.runner->Submit(plan).ok());
    const auto output = model.runner->Wait();
    BATON_CHECK(output.ok()) << output.status().ToString();
    scheduler.Commit(plan, *output, clock.Now());
    for (const SchedEvent& event : scheduler.TakeEvents()) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (token == nullptr) continue;
      std::vector<TokenId>& answer = outcome.answers[event.sequence.value() - 1];
      if (answer.empty()) ++begun;
      answer.push_back(token->token.token);
      outcome.tokens += timed ? 1 : 0;
    }
  }
  outcome.seconds = base::Seconds(clock.Now() - begin);
  const SchedulerFigures figures = scheduler.figures();
  outcome.rows = figures.rows_proposed;
  outcome.proposed = figures.ids_proposed;
  outcome.accepted = figures.ids_accepted;
  return outcome;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The share at which the curve through (share, ratio) comes to 1; empty where it does not.
std::optional<double> PaysFrom(const std::vector<double>& shares,
                               const std::vector<double>& ratios) {
  for (size_t i = 0; i + 1 < shares.size(); ++i) {
    if (ratios[i] >= 1 || ratios[i + 1] < 1) continue;
    const double part = (1 - ratios[i]) / (ratios[i + 1] - ratios[i]);
    return shares[i] + part * (shares[i + 1] - shares[i]);
  }
  return std::nullopt;
}

// One line for each share, and where the gain begins. Runs with and without take turns.
void MeasureBatch(LoadedModel& model, const Options& options, int32_t batch,
                  nlohmann::json* figures) {
  const Outcome known = Generate(model, options, batch, nullptr, 0);
  const size_t count = options.shares.size();
  std::vector<double> plain;
  std::vector<std::vector<double>> rates(count), ratios(count);
  std::vector<Outcome> last(count);
  for (int32_t round = 0; round < options.rounds; ++round) {
    plain.push_back(Generate(model, options, batch, nullptr, 0).TokensPerSecond());
    for (size_t i = 0; i < count; ++i) {
      last[i] = Generate(model, options, batch, &known.answers, options.shares[i]);
      BATON_CHECK(last[i].answers == known.answers) << "speculation changed a token";
      rates[i].push_back(last[i].TokensPerSecond());
      ratios[i].push_back(rates[i].back() / plain.back());
    }
  }
  std::printf("batch %d: %.1f tokens/s without\n", batch, Median(plain));
  std::vector<double> medians;
  for (size_t i = 0; i < count; ++i) {
    const Outcome& outcome = last[i];
    const double rows = std::max<double>(1, static_cast<double>(outcome.rows));
    const double per_row = 1 + static_cast<double>(outcome.accepted) / rows;
    const double of_proposed = static_cast<double>(outcome.accepted) /
                               std::max<double>(1, static_cast<double>(outcome.proposed));
    medians.push_back(Median(ratios[i]));
    std::printf(
        "  right %.2f: %.1f tokens/s, %.2f x; %.2f tokens of a row that verifies, "
        "%.0f %% of %llu foretold drawn; %lld steps\n",
        options.shares[i], Median(rates[i]), medians[i], per_row, 100 * of_proposed,
        static_cast<unsigned long long>(outcome.proposed), static_cast<long long>(outcome.steps));
    figures->push_back({{"batch", batch},
                        {"share", options.shares[i]},
                        {"plain_tokens_per_s", Median(plain)},
                        {"tokens_per_s", Median(rates[i])},
                        {"ratio", medians[i]},
                        {"tokens_per_verifying_row", per_row},
                        {"accepted_of_proposed", of_proposed}});
  }
  if (const auto from = PaysFrom(options.shares, medians)) {
    std::printf("  pays from about %.2f\n", *from);
  } else {
    std::printf("  %s at every share tried\n", medians[0] >= 1 ? "pays" : "does not pay");
  }
}

// Whether `list` is of numbers of `T` above 0, which take the place of `numbers`.
template <typename T>
bool SetNumbers(const std::string& list, std::vector<T>* numbers) {
  numbers->clear();
  for (const absl::string_view text : absl::StrSplit(list, ',')) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || number <= 0) return false;
    numbers->push_back(static_cast<T>(number));
  }
  return true;
}

bool SetNumber(const std::string& text, int32_t* number) {
  return absl::SimpleAtoi(text, number) && *number > 0;
}

bool SetOption(const std::string& flag, const std::string& value, Options& options) {
  if (flag == "--threads") return SetNumber(value, &options.threads);
  if (flag == "--batch") return SetNumbers(value, &options.batches);
  if (flag == "--shares") {
    if (!SetNumbers(value, &options.shares)) return false;
    std::sort(options.shares.begin(), options.shares.end());
    return options.shares.back() <= 1;
  }
  // The first token of an answer comes with its prompt, which is not timed.
  if (flag == "--tokens") return SetNumber(value, &options.tokens) && options.tokens > 1;
  if (flag == "--foretold") {
    return SetNumber(value, &options.foretold) && options.foretold <= kMaxProposals;
  }
  if (flag == "--together") return SetNumber(value, &options.together);
  if (flag == "--rounds") return SetNumber(value, &options.rounds);
  return false;
}

// Empty when the command line is wrong or asks for help.
std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (!argument.starts_with("-") && options.dir.empty()) {
      options.dir = argument;
    } else if (i + 1 >= argc || !SetOption(argument, argv[++i], options)) {
      return std::nullopt;
    }
  }
  return options;
}

// Memory and draws for the largest batch. Null, with the reason on standard error, where the model
// does not load or is too small for what is asked.
std::unique_ptr<LoadedModel> Load(const std::string& dir, const Options& options) {
  const int32_t largest = *std::max_element(options.batches.begin(), options.batches.end());
  if (int64_t{largest} * (kPromptTokens + options.tokens + 32) > kPoolTokens) {
    std::fprintf(stderr, "%d answers of %d tokens do not fit into a KV cache of %d tokens\n",
                 largest, options.tokens, kPoolTokens);
    return nullptr;
  }
  ModelOptions model;
  model.threads = options.threads;
  model.kv.tokens = kPoolTokens;
  model.limits = {.max_tokens = 2048, .max_samples = largest + options.together};
  auto loaded = LoadModel(dir, model, nullptr);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    return nullptr;
  }
  if ((*loaded)->config.max_positions < kPromptTokens + options.tokens) {
    std::fprintf(stderr, "the model has %d positions; %d are needed\n",
                 (*loaded)->config.max_positions, kPromptTokens + options.tokens);
    return nullptr;
  }
  return *std::move(loaded);
}

int Main(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: bench_speculation [--threads N] [--batch N[,N...]] [--shares S[,S...]] "
                 "[--tokens N] [--foretold N] [--together N] [--rounds N] [--json] [DIR]\n");
    return 2;
  }
  ScratchFolder temporary;
  const std::string dir = options->dir.empty() ? temporary / "model" : options->dir;
  if (options->dir.empty()) {
    const absl::Status written = WriteRandomModel(kBenchShape, dir);
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", written.ToString().c_str());
      return 1;
    }
  }
  const std::unique_ptr<LoadedModel> model = Load(dir, *options);
  if (model == nullptr) return 1;
  std::printf("%s, %d threads; answers of %d tokens behind %d, at most %d foretold for one\n",
              model->numerics().c_str(), model->threads(), options->tokens, kPromptTokens,
              options->foretold);
  nlohmann::json figures = nlohmann::json::array();
  for (const int32_t batch : options->batches) MeasureBatch(*model, *options, batch, &figures);
  if (options->json) std::printf("%s\n", figures.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace baton::test

int main(int argc, char** argv) { return baton::test::Main(argc, argv); }
