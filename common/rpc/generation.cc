#include "common/rpc/generation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/status.h"

namespace baton {
namespace {

absl::StatusOr<EosPolicy> EosPolicyFromProto(worker_pb::EosHandling handling) {
  switch (handling) {
    case worker_pb::EOS_HANDLING_UNSPECIFIED:
    case worker_pb::EOS_HANDLING_HONOR:
      return EosPolicy::kHonor;
    case worker_pb::EOS_HANDLING_IGNORE_CONTINUE:
      return EosPolicy::kIgnoreContinue;
    case worker_pb::EOS_HANDLING_IGNORE_MASK:
      return EosPolicy::kIgnoreMask;
    default:
      return InvalidArgument(Reason::kUnsupportedField, "stopping.eos_handling",
                             "eos_handling is " + std::to_string(handling) +
                                 "; this worker knows HONOR, IGNORE_CONTINUE and IGNORE_MASK");
  }
}

worker_pb::EosHandling EosPolicyToProto(EosPolicy policy) {
  switch (policy) {
    case EosPolicy::kHonor:
      return worker_pb::EOS_HANDLING_HONOR;
    case EosPolicy::kIgnoreContinue:
      return worker_pb::EOS_HANDLING_IGNORE_CONTINUE;
    case EosPolicy::kIgnoreMask:
      return worker_pb::EOS_HANDLING_IGNORE_MASK;
  }
  return worker_pb::EOS_HANDLING_UNSPECIFIED;
}

absl::StatusOr<GuideSpec> GuideFromProto(const worker_pb::Guide& proto) {
  switch (proto.kind()) {
    case worker_pb::GUIDE_KIND_JSON_SCHEMA:
      return GuideSpec{GuideKind::kJsonSchema, proto.text()};
    case worker_pb::GUIDE_KIND_JSON_OBJECT:
      return GuideSpec{GuideKind::kJsonObject, proto.text()};
    case worker_pb::GUIDE_KIND_REGEX:
      return GuideSpec{GuideKind::kRegex, proto.text()};
    case worker_pb::GUIDE_KIND_CHOICE:
      return GuideSpec{GuideKind::kChoice, proto.text()};
    case worker_pb::GUIDE_KIND_GRAMMAR:
      return GuideSpec{GuideKind::kGrammar, proto.text()};
    default:
      return InvalidArgument(Reason::kUnsupportedField, "guide.kind",
                             "guide.kind is " + std::to_string(proto.kind()) +
                                 "; this worker knows JSON_SCHEMA, JSON_OBJECT, REGEX, CHOICE "
                                 "and GRAMMAR");
  }
}

worker_pb::GuideKind GuideKindToProto(GuideKind kind) {
  switch (kind) {
    case GuideKind::kNone:
      return worker_pb::GUIDE_KIND_UNSPECIFIED;
    case GuideKind::kJsonSchema:
      return worker_pb::GUIDE_KIND_JSON_SCHEMA;
    case GuideKind::kJsonObject:
      return worker_pb::GUIDE_KIND_JSON_OBJECT;
    case GuideKind::kRegex:
      return worker_pb::GUIDE_KIND_REGEX;
    case GuideKind::kChoice:
      return worker_pb::GUIDE_KIND_CHOICE;
    case GuideKind::kGrammar:
      return worker_pb::GUIDE_KIND_GRAMMAR;
  }
  return worker_pb::GUIDE_KIND_UNSPECIFIED;
}

absl::StatusOr<EarlyStopping> EarlyStoppingFromProto(worker_pb::EarlyStopping proto) {
  switch (proto) {
    case worker_pb::EARLY_STOPPING_UNSPECIFIED:
    case worker_pb::EARLY_STOPPING_FALSE:
      return EarlyStopping::kFalse;
    case worker_pb::EARLY_STOPPING_TRUE:
      return EarlyStopping::kTrue;
    case worker_pb::EARLY_STOPPING_NEVER:
      return EarlyStopping::kNever;
    default:
      return InvalidArgument(Reason::kUnsupportedField, "beams.early_stopping",
                             "early_stopping is " + std::to_string(proto) +
                                 "; this worker knows FALSE, TRUE and NEVER");
  }
}

worker_pb::EarlyStopping EarlyStoppingToProto(EarlyStopping early_stopping) {
  switch (early_stopping) {
    case EarlyStopping::kFalse:
      return worker_pb::EARLY_STOPPING_FALSE;
    case EarlyStopping::kTrue:
      return worker_pb::EARLY_STOPPING_TRUE;
    case EarlyStopping::kNever:
      return worker_pb::EARLY_STOPPING_NEVER;
  }
  return worker_pb::EARLY_STOPPING_UNSPECIFIED;
}

absl::StatusOr<BeamParams> BeamParamsFromProto(const worker_pb::BeamSearch& proto) {
  if (proto.width() < 1) {
    return InvalidArgument(Reason::kInvalidSampling, "beams.width",
                           "width is " + std::to_string(proto.width()) + "; expected at least 1");
  }
  BATON_ASSIGN_OR_RETURN(const EarlyStopping early_stopping,
                         EarlyStoppingFromProto(proto.early_stopping()));
  return BeamParams{.width = proto.width(),
                    .results = proto.results(),
                    .length_penalty = proto.length_penalty(),
                    .early_stopping = early_stopping};
}

void BeamParamsToProto(const BeamParams& beams, worker_pb::BeamSearch* proto) {
  proto->set_width(beams.width);
  proto->set_results(beams.results);
  proto->set_length_penalty(beams.length_penalty);
  proto->set_early_stopping(EarlyStoppingToProto(beams.early_stopping));
}

SamplingParams SamplingFromProto(const worker_pb::Sampling& proto) {
  SamplingParams params;
  params.temperature = proto.temperature();
  params.top_k = proto.top_k();
  params.top_p = proto.top_p();
  params.min_p = proto.min_p();
  params.repetition_penalty = proto.repetition_penalty();
  params.presence_penalty = proto.presence_penalty();
  params.frequency_penalty = proto.frequency_penalty();
  params.no_repeat_ngram_size = proto.no_repeat_ngram_size();
  params.seed = proto.seed();
  params.logit_bias.assign(proto.logit_bias().begin(), proto.logit_bias().end());
  // A protobuf map has no order; sums of floats must not depend on it.
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  params.num_top_logprobs = proto.num_top_logprobs();
  return params;
}

void SamplingToProto(const SamplingParams& params, worker_pb::Sampling* proto) {
  proto->set_temperature(params.temperature);
  proto->set_top_k(params.top_k);
  proto->set_top_p(params.top_p);
  proto->set_min_p(params.min_p);
  proto->set_repetition_penalty(params.repetition_penalty);
  proto->set_presence_penalty(params.presence_penalty);
  proto->set_frequency_penalty(params.frequency_penalty);
  proto->set_no_repeat_ngram_size(params.no_repeat_ngram_size);
  proto->set_seed(params.seed);
  for (const auto& [id, bias] : params.logit_bias) (*proto->mutable_logit_bias())[id] = bias;
  proto->set_num_top_logprobs(params.num_top_logprobs);
}

void EndToProto(const EndEstimate& end, worker_pb::EndEstimate* proto) {
  proto->set_expected_remaining(end.expected_remaining);
  proto->set_p50(end.p50);
  proto->set_p90(end.p90);
  proto->mutable_within()->Assign(end.p_within.begin(), end.p_within.end());
  proto->set_predictor(std::string(PredictorKindName(end.kind)));
}

// Empty for what this version does not know.
std::optional<EndEstimate> EndFromProto(int32_t at_step, const worker_pb::EndEstimate& proto) {
  const PredictorKind kind = PredictorKindOf(proto.predictor());
  EndEstimate end{.at_step = at_step,
                  .expected_remaining = proto.expected_remaining(),
                  .p50 = proto.p50(),
                  .p90 = proto.p90(),
                  .kind = kind};
  if (kind == PredictorKind::kNone || proto.within_size() != std::ssize(end.p_within)) {
    return std::nullopt;
  }
  std::copy(proto.within().begin(), proto.within().end(), end.p_within.begin());
  return end;
}

template <typename Entry>
void TopLogprobsToProto(const std::vector<TokenLogprob>& top, Entry* proto) {
  for (const TokenLogprob& one : top) {
    worker_pb::TopLogprob* out = proto->add_top_logprobs();
    out->set_id(one.token);
    out->set_logprob(one.logprob);
  }
}

template <typename Entry>
std::vector<TokenLogprob> TopLogprobsFromProto(const Entry& proto) {
  std::vector<TokenLogprob> top;
  for (const worker_pb::TopLogprob& one : proto.top_logprobs()) {
    top.push_back({.token = one.id(), .logprob = one.logprob()});
  }
  return top;
}

}  // namespace

absl::StatusOr<SequenceSpec> SpecFromProto(const worker_pb::Generation& proto) {
  SequenceSpec spec;
  spec.prompt.assign(proto.prompt_ids().begin(), proto.prompt_ids().end());
  spec.generated.assign(proto.generated_ids().begin(), proto.generated_ids().end());
  spec.sampling = SamplingFromProto(proto.sampling());
  const worker_pb::Stopping& stopping = proto.stopping();
  spec.stop.max_tokens = stopping.max_tokens();
  spec.stop.min_tokens = stopping.min_tokens();
  spec.stop.stop_token_ids.assign(stopping.stop_token_ids().begin(),
                                  stopping.stop_token_ids().end());
  BATON_ASSIGN_OR_RETURN(spec.stop.eos_policy, EosPolicyFromProto(stopping.eos_handling()));
  if (stopping.has_length_control()) {
    spec.stop.length_control = {.target = stopping.length_control().target(),
                                .strength = stopping.length_control().strength()};
  }
  if (proto.has_beams()) {
    BATON_ASSIGN_OR_RETURN(spec.beams, BeamParamsFromProto(proto.beams()));
  }
  if (proto.has_guide()) {
    BATON_ASSIGN_OR_RETURN(spec.guide, GuideFromProto(proto.guide()));
    spec.bare_forced = proto.bare_forced();
  }
  if (proto.has_natural_end_step()) spec.natural_end_step = proto.natural_end_step();
  if (proto.has_end_chance_step()) spec.end_chance_step = proto.end_chance_step();
  if (proto.has_score_from()) spec.score_from = proto.score_from();
  spec.cache_salt = proto.cache_salt();
  constexpr size_t kMostClassBytes = 256;
  if (proto.length_class().size() <= kMostClassBytes) spec.length_class = proto.length_class();
  // Not a number counts as nothing; more than a day has no meaning beyond "first".
  constexpr double kDayMs = 24 * 3600 * 1e3;
  const double waited = proto.waited_ms() > 0 ? std::min(proto.waited_ms(), kDayMs) : 0;
  // Rounded, so that passing it on changes nothing.
  spec.waited = std::chrono::nanoseconds(std::llround(waited * 1e6));
  return spec;
}

void SpecToProto(const SequenceSpec& spec, worker_pb::Generation* proto) {
  proto->mutable_prompt_ids()->Assign(spec.prompt.begin(), spec.prompt.end());
  proto->mutable_generated_ids()->Assign(spec.generated.begin(), spec.generated.end());
  SamplingToProto(spec.sampling, proto->mutable_sampling());
  worker_pb::Stopping* stopping = proto->mutable_stopping();
  stopping->set_max_tokens(spec.stop.max_tokens);
  stopping->set_min_tokens(spec.stop.min_tokens);
  stopping->mutable_stop_token_ids()->Assign(spec.stop.stop_token_ids.begin(),
                                             spec.stop.stop_token_ids.end());
  stopping->set_eos_handling(EosPolicyToProto(spec.stop.eos_policy));
  if (const auto& control = spec.stop.length_control) {
    stopping->mutable_length_control()->set_target(control->target);
    stopping->mutable_length_control()->set_strength(control->strength);
  }
  if (spec.beams.on()) BeamParamsToProto(spec.beams, proto->mutable_beams());
  if (!spec.guide.empty()) {
    proto->mutable_guide()->set_kind(GuideKindToProto(spec.guide.kind));
    proto->mutable_guide()->set_text(spec.guide.text);
    proto->set_bare_forced(spec.bare_forced);
  }
  if (spec.natural_end_step) proto->set_natural_end_step(*spec.natural_end_step);
  if (spec.end_chance_step) proto->set_end_chance_step(*spec.end_chance_step);
  if (spec.score_from) proto->set_score_from(*spec.score_from);
  proto->set_cache_salt(spec.cache_salt);
  proto->set_length_class(spec.length_class);
  proto->set_waited_ms(base::Milliseconds(spec.waited));
}

TokenExtras ExtrasOf(const worker_pb::Generation& generation) {
  return {.eos_signal = generation.eos_signals(), .probe = generation.probe()};
}

void TokenToProto(const PlacedToken& token, const TokenExtras& extras, worker_pb::Token* proto) {
  proto->set_index(token.index);
  proto->set_id(token.token.token);
  proto->set_logprob(token.token.logprob);
  TopLogprobsToProto(token.token.top_logprobs, proto);
  if (extras.probe) {
    proto->mutable_probe()->Assign(token.token.probe.begin(), token.token.probe.end());
  }
  if (extras.eos_signal) {
    worker_pb::EosSignal* eos = proto->mutable_eos();
    eos->set_eos_logprob(token.token.eos.eos_logprob);
    eos->set_eos_prob_sampling(token.token.eos.eos_prob_sampling);
    eos->set_eos_rank(token.token.eos.eos_rank);
    eos->set_entropy(token.token.eos.entropy);
    eos->set_top1_prob(token.token.eos.top1_prob);
  }
  proto->set_natural_end(token.token.natural_end);
  proto->set_end_chance(token.token.end_chance);
  proto->set_runaway_end(token.token.runaway_end);
  proto->set_only_end(token.token.only_end);
  proto->set_forced(token.token.forced);
  proto->set_unix_time(token.unix_time);
  if (token.token.end) EndToProto(*token.token.end, proto->mutable_end());
}

PlacedToken TokenFromProto(const worker_pb::Token& proto) {
  PlacedToken token;
  token.index = proto.index();
  token.token.token = proto.id();
  token.token.logprob = proto.logprob();
  token.token.top_logprobs = TopLogprobsFromProto(proto);
  token.token.eos = {.eos_logprob = proto.eos().eos_logprob(),
                     .eos_prob_sampling = proto.eos().eos_prob_sampling(),
                     .eos_rank = proto.eos().eos_rank(),
                     .entropy = proto.eos().entropy(),
                     .top1_prob = proto.eos().top1_prob()};
  token.token.probe.assign(proto.probe().begin(), proto.probe().end());
  token.token.natural_end = proto.natural_end();
  token.token.end_chance = proto.end_chance();
  token.token.runaway_end = proto.runaway_end();
  token.token.only_end = proto.only_end();
  token.token.forced = proto.forced();
  token.unix_time = proto.unix_time();
  if (proto.has_end()) token.token.end = EndFromProto(proto.index() + 1, proto.end());
  return token;
}

void ScoresToProto(const PlacedScores& scores, worker_pb::PromptScores* proto) {
  proto->set_first_index(scores.first_index);
  for (const TokenScore& score : scores.scores) {
    worker_pb::TokenScore* out = proto->add_scores();
    out->set_logprob(score.logprob);
    TopLogprobsToProto(score.top_logprobs, out);
  }
}

PlacedScores ScoresFromProto(const worker_pb::PromptScores& proto) {
  PlacedScores scores{.first_index = proto.first_index(), .scores = {}};
  for (const worker_pb::TokenScore& score : proto.scores()) {
    scores.scores.push_back(
        {.logprob = score.logprob(), .top_logprobs = TopLogprobsFromProto(score)});
  }
  return scores;
}

void BeamsToProto(const std::vector<BeamResult>& beams,
                  google::protobuf::RepeatedPtrField<worker_pb::BeamAnswer>* proto) {
  for (const BeamResult& beam : beams) {
    worker_pb::BeamAnswer* answer = proto->Add();
    answer->mutable_ids()->Assign(beam.tokens.begin(), beam.tokens.end());
    answer->set_score(beam.score);
    WorkerEnding ending{.reason = beam.reason};
    if (beam.reason != FinishReason::kLength) ending.stop_token = beam.tokens.back();
    EndingToProto(ending, answer->mutable_ending());
  }
}

std::vector<BeamResult> BeamsFromProto(
    const google::protobuf::RepeatedPtrField<worker_pb::BeamAnswer>& proto) {
  std::vector<BeamResult> beams;
  for (const worker_pb::BeamAnswer& answer : proto) {
    beams.push_back({.tokens = {answer.ids().begin(), answer.ids().end()},
                     .score = answer.score(),
                     .reason = EndingFromProto(answer.ending()).reason});
  }
  return beams;
}

FinishReason FinishReasonFromProto(worker_pb::FinishCause cause) {
  switch (cause) {
    case worker_pb::FINISH_CAUSE_STOP_EOS:
      return FinishReason::kStopEos;
    case worker_pb::FINISH_CAUSE_STOP_TOKEN:
      return FinishReason::kStopToken;
    case worker_pb::FINISH_CAUSE_STOP_STRING:
      return FinishReason::kStopString;
    case worker_pb::FINISH_CAUSE_STOP_GRAMMAR:
      return FinishReason::kStopGrammar;
    case worker_pb::FINISH_CAUSE_LENGTH:
      return FinishReason::kLength;
    case worker_pb::FINISH_CAUSE_RUNAWAY:
      return FinishReason::kRunaway;
    default:
      return FinishReason::kNone;
  }
}

worker_pb::FinishCause FinishCauseToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopEos:
      return worker_pb::FINISH_CAUSE_STOP_EOS;
    case FinishReason::kStopToken:
      return worker_pb::FINISH_CAUSE_STOP_TOKEN;
    case FinishReason::kStopString:
      return worker_pb::FINISH_CAUSE_STOP_STRING;
    case FinishReason::kStopGrammar:
      return worker_pb::FINISH_CAUSE_STOP_GRAMMAR;
    case FinishReason::kLength:
      return worker_pb::FINISH_CAUSE_LENGTH;
    case FinishReason::kRunaway:
      return worker_pb::FINISH_CAUSE_RUNAWAY;
    default:
      return worker_pb::FINISH_CAUSE_UNSPECIFIED;
  }
}

void EndingToProto(const WorkerEnding& ending, worker_pb::Ending* proto) {
  proto->set_cause(FinishCauseToProto(ending.reason));
  if (ending.stop_token) proto->set_stop_token_id(*ending.stop_token);
  if (ending.natural_end_step) proto->set_natural_end_step(*ending.natural_end_step);
}

WorkerEnding EndingFromProto(const worker_pb::Ending& proto) {
  WorkerEnding ending;
  ending.reason = FinishReasonFromProto(proto.cause());
  if (proto.has_stop_token_id()) ending.stop_token = proto.stop_token_id();
  if (proto.has_natural_end_step()) ending.natural_end_step = proto.natural_end_step();
  return ending;
}

void TicketToProto(const Ticket& ticket, worker_pb::Ticket* proto) {
  proto->set_incarnation(ticket.incarnation);
  proto->set_secret(ticket.SecretBytes());
}

std::optional<Ticket> TicketFromProto(const worker_pb::Ticket& proto) {
  return Ticket::FromWire(proto.incarnation(), proto.secret());
}

void KvShapeToProto(const KvShape& shape, worker_pb::KvLayout* proto) {
  proto->set_dtype(shape.dtype);
  proto->set_block_size(shape.block_size);
  proto->set_layers(shape.layers);
  proto->set_kv_heads(shape.kv_heads);
  proto->set_head_dim(shape.head_dim);
  proto->set_tensor_parallel(shape.tensor_parallel);
  proto->set_layout_version(shape.layout_version);
}

KvShape KvShapeFromProto(const worker_pb::KvLayout& proto) {
  return {.dtype = proto.dtype(),
          .block_size = proto.block_size(),
          .layers = proto.layers(),
          .kv_heads = proto.kv_heads(),
          .head_dim = proto.head_dim(),
          .tensor_parallel = proto.tensor_parallel(),
          .layout_version = proto.layout_version()};
}

}  // namespace baton
