#include "common/eos/predict/end_predictor.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/token_boundary.h"
#include "common/eos/predict/end_score.h"

namespace baton {
namespace {

constexpr double kTailMean = 2048;     // where no file says more
constexpr int32_t kScoredEvery = 16;   // steps
constexpr int32_t kScoredAtOnce = 64;  // estimates whose outcome is awaited
constexpr size_t kScoredBefore = 64;   // scores of estimates that were given up for room
constexpr size_t kVersionDigits = 12;

}  // namespace

// What goes along with one sequence.
struct EndPredictor::Live {
  Live(const PredictRequest& request, std::span<const TokenId> generated,
       std::span<const uint8_t> boundaries)
      : length_class(request.length_class),
        features(request, generated, boundaries),
        first_step(static_cast<int32_t>(generated.size())),
        min_tokens(request.min_tokens) {}

  // How many of the tokens behind `step` cannot be the end.
  int32_t barred(int32_t step) const { return std::max(0, min_tokens - step); }

  const std::string length_class;
  SignalFeatures features;
  std::vector<double> state;  // of the file's model
  const int32_t first_step;   // tokens that were there before
  const int32_t min_tokens;
  bool learns = false;
  bool broken = false;  // a step is missing
  std::optional<int32_t> natural_end_step;
  std::deque<EndEstimate> awaited;
  std::vector<EndScore> scored;  // at most kScoredBefore, of those that were too many to wait for
};

EndPredictor::EndPredictor(std::unique_ptr<const PredictorFile> file,
                           std::vector<uint8_t> boundaries)
    : file_(std::move(file)), boundaries_(std::move(boundaries)) {}

EndPredictor::~EndPredictor() = default;

void EndPredictor::Drop(SequenceId id) { live_.erase(id); }

size_t EndPredictor::live() const { return live_.size(); }

std::string EndPredictor::version() const {
  return file_ ? absl::StrCat(file_->name, "@", file_->sha256.substr(0, kVersionDigits)) : "";
}

std::optional<EndEstimate> EndPredictor::Begin(SequenceId id, const PredictRequest& request,
                                               std::span<const TokenId> generated, bool learns) {
  auto live = std::make_unique<Live>(request, generated, boundaries_);
  live->learns = learns;
  if (file_) live->state.resize(file_->model->state_size());
  const auto prior = Learnt(live->length_class, live->first_step, live->min_tokens);
  live_.insert_or_assign(id, std::move(live));
  return prior;
}

std::optional<EndEstimate> EndPredictor::Take(SequenceId id, int32_t step,
                                              const SampledToken& token) {
  const auto found = live_.find(id);
  if (found == live_.end()) return std::nullopt;
  Live* const live = found->second.get();
  // The steps behind a natural end are not taken, so they are not missing either.
  if (live->natural_end_step) return std::nullopt;
  live->broken |= step != live->features.step() + 1;
  if (live->broken) return std::nullopt;
  const uint8_t boundary = BoundaryOf(boundaries_, token.token);
  live->features.Add({.eos_logprob = double{token.eos.eos_logprob},
                      .eos_prob_sampling = double{token.eos.eos_prob_sampling},
                      .entropy = double{token.eos.entropy},
                      .top1_prob = double{token.eos.top1_prob},
                      .eos_rank = token.eos.eos_rank,
                      .token = token.token,
                      .ends_line = (boundary & kEndsLine) != 0,
                      .ends_sentence = (boundary & kEndsSentence) != 0,
                      .probe = token.probe});
  const auto estimate = Estimate(live);
  if (estimate) Remember(*estimate, live);
  return estimate;
}

std::optional<EndEstimate> EndPredictor::TakeFirst(SequenceId id, const SampledToken& token) {
  const auto found = live_.find(id);
  if (found == live_.end()) return std::nullopt;
  return Take(id, found->second->first_step + 1, token);
}

std::optional<EndEstimate> EndPredictor::Estimate(Live* live) const {
  const SignalFeatures& features = live->features;
  if (file_) {
    const auto dims = file_->reads_probe ? static_cast<size_t>(file_->probe->dims) : 0;
    const bool probe_there = features.probe().size() >= dims &&
                             (!file_->reads_first_probe || features.first_probe().size() >= dims);
    const bool warm = !features.restarted() || features.rows() >= file_->rows_to_warm_up;
    const auto chances = file_->Step({features, live->length_class}, live->state);
    if (chances && warm && probe_there) {
      // What it says of the end that the model wants by now holds from where that may come.
      return EstimateOf(*chances, file_->tail_mean, features.step(), file_->model->kind(),
                        live->barred(features.step()));
    }
  }
  return Learnt(live->length_class, features.step(), live->min_tokens);
}

std::optional<EndEstimate> EndPredictor::Learnt(std::string_view length_class, int32_t step,
                                                int32_t min_tokens) const {
  const int32_t from = std::max(step, min_tokens);
  const auto chances = survival_.ChancesAfter(length_class, from);
  if (!chances) return std::nullopt;
  return EstimateOf(*chances, kTailMean, step, PredictorKind::kLearnt, from - step);
}

// An estimate that is given up for room is so old that it was out within no horizon. The first of
// them are told; what lies between those and the ones that are awaited at the end is not.
void EndPredictor::Remember(const EndEstimate& estimate, Live* live) const {
  static_assert(kScoredEvery * (kScoredAtOnce - 1) > kEndHorizons.back());
  // Before the answer may end, an estimate is mostly of what is certain.
  if (estimate.at_step % kScoredEvery != 1 || live->barred(estimate.at_step) > 0) return;
  if (live->awaited.size() == size_t{kScoredAtOnce}) {
    const auto score =
        ScoreOf(live->awaited.front(), {.seen = estimate.at_step, .limit = estimate.at_step});
    if (score && live->scored.size() < kScoredBefore) live->scored.push_back(*score);
    live->awaited.pop_front();
  }
  live->awaited.push_back(estimate);
}

void EndPredictor::NaturalEnd(SequenceId id) {
  const auto found = live_.find(id);
  if (found == live_.end() || found->second->natural_end_step) return;
  found->second->natural_end_step = found->second->features.step();
}

std::vector<EndScore> EndPredictor::End(SequenceId id, const SequenceOutcome& outcome) {
  const auto found = live_.find(id);
  if (found == live_.end()) return {};
  const std::unique_ptr<Live> live = std::move(found->second);
  live_.erase(found);
  std::optional<int32_t> natural = outcome.natural_end_step;
  if (outcome.reason == FinishReason::kStopEos) natural = outcome.generated_tokens;
  const int32_t seen = natural.value_or(outcome.generated_tokens);
  if (live->broken) return {};
  if (live->learns) {
    survival_.Add({.length_class = live->length_class,
                   .from = std::max(live->first_step, live->min_tokens),
                   .to = seen,
                   .natural = natural.has_value()});
  }
  std::vector<EndScore> scores = std::move(live->scored);
  const AnswerSpan answer = {.natural = natural, .seen = seen, .limit = outcome.max_tokens};
  for (const EndEstimate& estimate : live->awaited) {
    if (auto score = ScoreOf(estimate, answer)) scores.push_back(*score);
  }
  return scores;
}

}  // namespace baton
