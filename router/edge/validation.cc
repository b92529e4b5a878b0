#include "router/edge/validation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/validate.h"
#include "router/edge/answer_choice.h"
#include "router/edge/beam_choice.h"
#include "router/edge/guide_choice.h"
#include "router/edge/sampling_choice.h"

namespace baton {
namespace {

constexpr size_t kNameBytesShown = 256;

absl::Status Unsupported(std::string_view field, std::string_view instead) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.reason = Reason::kUnsupportedField, .field = std::string(field)},
                   absl::StrCat(std::string(field), " is not implemented; ", std::string(instead)));
}

absl::Status CheckUnsupported(const v1::GenerationSpec& spec) {
  if (spec.priority() != 0) return Unsupported("spec.priority", "leave it out");
  return absl::OkStatus();
}

EosPolicy PolicyOf(v1::EosPolicy policy) {
  if (policy == v1::EOS_POLICY_IGNORE_CONTINUE) return EosPolicy::kIgnoreContinue;
  if (policy == v1::EOS_POLICY_IGNORE_MASK) return EosPolicy::kIgnoreMask;
  return EosPolicy::kHonor;
}

absl::Status CheckStopStrings(const v1::StopParams& stop) {
  const auto empty = [](const std::string& text) { return text.empty(); };
  if (std::none_of(stop.stop().begin(), stop.stop().end(), empty)) return absl::OkStatus();
  return InvalidArgument(Reason::kInvalidText, "spec.stop.stop",
                         "a stop string is empty; expected at least one byte");
}

absl::Status CheckEosPolicy(const v1::GenerationSpec& spec, const RouterOptions& options) {
  if (!v1::EosPolicy_IsValid(spec.stop().eos_policy())) {
    return InvalidArgument(
        Reason::kConflictingOptions, "spec.stop.eos_policy",
        absl::StrCat("eos_policy is ", static_cast<int>(spec.stop().eos_policy()),
                     "; expected a value of EosPolicy"));
  }
  if (PolicyOf(spec.stop().eos_policy()) == EosPolicy::kHonor) return absl::OkStatus();
  if (options.ignore_eos == IgnoreEosRule::kRefuse) {
    return InvalidArgument(
        Reason::kConflictingOptions, "spec.stop.eos_policy",
        "this server does not ignore EOS (--ignore-eos refuse); let EOS end the request");
  }
  if (spec.stop().stop_size() > 0) {
    return InvalidArgument(Reason::kConflictingOptions, "spec.stop.stop",
                           "stop strings end a request, ignoring EOS runs it to max_tokens; "
                           "expected one of the two");
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const RequestInput& input, const ServedModel& model) {
  if (const auto* text = std::get_if<std::string>(&input); text != nullptr && text->empty()) {
    return InvalidArgument(Reason::kEmptyPrompt, "text", "the prompt is empty; send some text");
  }
  if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&input)) {
    if (messages->empty()) {
      return InvalidArgument(Reason::kEmptyPrompt, "messages", "no messages; send at least one");
    }
    if (model.chat_template == nullptr) {
      return MakeError(absl::StatusCode::kUnimplemented,
                       {.reason = Reason::kUnsupportedField, .field = "messages"},
                       absl::StrCat("model ", model.name,
                                    " has no chat template; send the full prompt as text"));
    }
  }
  const auto* ids = std::get_if<std::vector<TokenId>>(&input);
  if (ids == nullptr) return absl::OkStatus();
  if (ids->empty()) {
    return InvalidArgument(Reason::kEmptyPrompt, "token_ids", "no token ids; send at least one");
  }
  return CheckTokenIds("token_ids", *ids, model.config.vocab);
}

// Whether the prompt alone is asked for.
bool OnlyPrompt(const v1::GenerationSpec& spec) {
  const bool none = spec.stop().has_max_tokens() && spec.stop().max_tokens() == 0;
  return none && (spec.output().prompt_logprobs() || spec.output().echo());
}

absl::Status CheckMaxTokens(const v1::StopParams& stop, const RouterOptions& options) {
  const int32_t most = options.max_output_length;
  if (most > 0 && stop.min_tokens() > most) {
    return InvalidArgument(Reason::kInvalidMaxTokens, "spec.stop.min_tokens",
                           absl::StrCat("min_tokens is ", stop.min_tokens(),
                                        "; this server allows outputs of at most ", most));
  }
  if (!stop.has_max_tokens()) return absl::OkStatus();
  if (stop.max_tokens() < 1) {
    return InvalidArgument(
        Reason::kInvalidMaxTokens, "spec.stop.max_tokens",
        absl::StrCat("max_tokens is ", stop.max_tokens(),
                     "; expected at least 1, or leave it out for as many as fit (0 asks for the "
                     "prompt alone and needs output.echo or output.prompt_logprobs)"));
  }
  if (most > 0 && stop.max_tokens() > most) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.reason = Reason::kInvalidMaxTokens,
         .field = "spec.stop.max_tokens",
         .values = {{"have", absl::StrCat(stop.max_tokens())}, {"limit", absl::StrCat(most)}}},
        absl::StrCat("max_tokens is ", stop.max_tokens(), "; this server allows at most ", most));
  }
  return absl::OkStatus();
}

// Request ids and tags stand in lines of logs and tables.
absl::Status CheckOneLine(std::string_view name, const std::string& text) {
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(text.begin(), text.end(), control)) {
    return InvalidArgument(
        Reason::kInvalidText, absl::StrCat("spec.", std::string(name)),
        absl::StrCat(std::string(name), " has a control character; expected text on one line"));
  }
  return absl::OkStatus();
}

// Spells the field of `status` as in GenerationSpec, because the sampler's checks know no messages.
absl::Status InSpec(const absl::Status& status, std::string_view message_path) {
  ErrorDetail detail = DetailOf(status);
  if (status.ok() || detail.field.starts_with("spec.")) return status;
  const bool output = detail.field == "logprobs";
  detail.field =
      absl::StrCat(output ? "spec.output." : std::string(message_path), std::move(detail.field));
  return MakeError(status.code(), std::move(detail),
                   {status.message().data(), status.message().size()});
}

StopParams ResolveStop(const v1::StopParams& given) {
  StopParams stop;
  stop.max_tokens = given.max_tokens();
  stop.min_tokens = given.min_tokens();
  stop.stop_token_ids.assign(given.stop_token_ids().begin(), given.stop_token_ids().end());
  stop.eos_policy = PolicyOf(given.eos_policy());
  if (given.has_length_control()) {
    stop.length_control = {.target = given.length_control().target(),
                           .strength = given.length_control().strength()};
  }
  return stop;
}

// What a request gets that does not say how much it wants. A prompt that only a worker takes that
// is down now gets what fits there.
void SettleMaxTokens(const LengthLimits& limits, const ServedModel& model, RequestSpec* spec) {
  const auto prompt = static_cast<int64_t>(spec->prompt.size());
  const int64_t context = limits.context_now > prompt ? limits.context_now : limits.context;
  int64_t room = context - prompt;
  if (spec->beams.on() && limits.pool > 0) {
    const auto fits_in = [&](int64_t pool) {
      return BeamOutputThatFits(prompt, spec->beams.width, limits.block, pool);
    };
    const int64_t now = fits_in(limits.pool_now);
    room = std::min(room, now > 0 ? now : fits_in(limits.pool));
  }
  int64_t most = room;
  if (limits.output > 0) most = std::min<int64_t>(most, limits.output);
  if (spec->usual_max_tokens > 0) most = std::min<int64_t>(most, spec->usual_max_tokens);
  if (model.generation.max_new_tokens) {
    most = std::min<int64_t>(most, *model.generation.max_new_tokens);
  }
  spec->as_many_as_fit = most == room;
  if (spec->as_many_as_fit && limits.context_now == 0) return;
  spec->stop.max_tokens = std::max<int32_t>(static_cast<int32_t>(most), spec->stop.min_tokens);
}

}  // namespace

absl::Status CheckModelName(const std::string& name, const ServedModel& model) {
  if (name.empty() || name == model.name) return absl::OkStatus();
  // The name stands in the answer several times, and peers take few bytes of trailers.
  const std::string found = name.size() <= kNameBytesShown
                                ? absl::StrCat("no model '", name, "'")
                                : absl::StrCat("no model of a name of ", name.size(), " bytes");
  return MakeError(absl::StatusCode::kNotFound,
                   {.reason = Reason::kModelNotFound, .field = "spec.model"},
                   absl::StrCat(found, "; this server has '", model.name, "'"));
}

absl::Status CheckPredictEvery(const v1::EosOptions& eos) {
  if (eos.predict_every() < 0) {
    return InvalidArgument(
        Reason::kLimitExceeded, "spec.eos.predict_every",
        absl::StrCat("predict_every is ", eos.predict_every(),
                     "; give a number of steps, or leave it out for every step"));
  }
  if (eos.predict_every() > 0 && !eos.predict()) {
    return InvalidArgument(Reason::kConflictingOptions, "spec.eos.predict_every",
                           "predict_every is given without predict; set both, or neither");
  }
  return absl::OkStatus();
}

absl::StatusOr<RequestSpec> ValidateSpec(const v1::GenerationSpec& spec, RequestInput input,
                                         const ServedModel& model, const RouterOptions& options,
                                         uint64_t seed) {
  BATON_RETURN_IF_ERROR(CheckModelName(spec.model(), model));
  BATON_RETURN_IF_ERROR(CheckUnsupported(spec));
  BATON_RETURN_IF_ERROR(CheckOneLine("request_id", spec.request_id()));
  BATON_RETURN_IF_ERROR(CheckOneLine("tag", spec.tag()));
  BATON_RETURN_IF_ERROR(CheckInput(input, model));
  if (!OnlyPrompt(spec)) BATON_RETURN_IF_ERROR(CheckMaxTokens(spec.stop(), options));
  BATON_RETURN_IF_ERROR(CheckStopStrings(spec.stop()));
  BATON_RETURN_IF_ERROR(CheckEosPolicy(spec, options));
  BATON_RETURN_IF_ERROR(CheckPredictEvery(spec.eos()));
  RequestSpec resolved;
  resolved.request_id = spec.request_id();
  resolved.chat = std::holds_alternative<std::vector<ChatMessage>>(input);
  resolved.input = std::move(input);
  BATON_ASSIGN_OR_RETURN(resolved.sampling, ResolveSampling(spec, model, seed));
  BATON_RETURN_IF_ERROR(
      InSpec(ValidateSampling(resolved.sampling, model.config.vocab), "spec.sampling."));
  resolved.stop = ResolveStop(spec.stop());
  resolved.only_prompt = OnlyPrompt(spec);
  if (resolved.only_prompt) {
    if (resolved.stop.min_tokens > 0) {
      return InvalidArgument(Reason::kConflictingOptions, "spec.stop.min_tokens",
                             absl::StrCat("min_tokens is ", resolved.stop.min_tokens,
                                          " and max_tokens is 0, so nothing is generated; leave "
                                          "min_tokens out"));
    }
    // Workers draw at least one token.
    resolved.stop.max_tokens = 1;
  }
  BATON_RETURN_IF_ERROR(InSpec(ValidateStop(resolved.stop, model.config.vocab), "spec.stop."));
  BATON_ASSIGN_OR_RETURN(resolved.guide, GuideOf(spec));
  BATON_RETURN_IF_ERROR(InSpec(ValidateGuide(resolved.guide, resolved.stop), "spec."));
  resolved.stop_strings.assign(spec.stop().stop().begin(), spec.stop().stop().end());
  resolved.include_stop = spec.stop().include_stop_in_output();
  resolved.skip_special_tokens =
      !spec.output().has_skip_special_tokens() || spec.output().skip_special_tokens();
  resolved.logprobs = spec.output().has_logprobs();
  resolved.prompt_logprobs = spec.output().prompt_logprobs();
  resolved.echo = spec.output().echo();
  resolved.eos_probe = spec.eos().probe();
  resolved.eos_steps = spec.eos().steps() || resolved.eos_probe;
  resolved.tag = spec.tag();
  resolved.preset = spec.preset();
  if (spec.eos().predict()) resolved.predict_every = std::max(1, spec.eos().predict_every());
  resolved.cache_salt = spec.cache_salt();
  BATON_RETURN_IF_ERROR(TakeBeams(spec, model, &resolved));
  if (resolved.beams.on()) return resolved;
  BATON_RETURN_IF_ERROR(TakeAnswers(spec, options, &resolved));
  return resolved;
}

absl::Status CheckTextSize(const RequestInput& input, const LengthLimits& limits,
                           const ServedModel& model) {
  const int64_t limit = limits.input > 0 ? std::min(limits.input, limits.context) : limits.context;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
    if (std::ssize(*ids) <= limit) return absl::OkStatus();
    return TooLong("input", "prompt", std::ssize(*ids), limit);
  }
  size_t bytes = 0;
  if (const auto* text = std::get_if<std::string>(&input)) bytes = text->size();
  if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&input)) {
    for (const ChatMessage& message : *messages) bytes += message.content.size();
  }
  // No token stands for more bytes than the longest. Twice that is allowed, because normalizers
  // drop bytes.
  const auto longest = static_cast<int64_t>(std::max<size_t>(1, model.longest_token_bytes));
  const auto at_least = static_cast<int64_t>(bytes) / longest / 2;
  if (at_least <= limit) return absl::OkStatus();
  return TooLong("input", "prompt at the very least", at_least, limit);
}

absl::Status CheckIdsMessage(size_t bytes, const LengthLimits& limits) {
  // The longest way to write an id in a message is a tag and ten bytes of a negative number; the
  // rest of the message is a name and a switch.
  constexpr int64_t kIdBytes = 11;
  constexpr int64_t kRestBytes = 1024;
  const int64_t at_least = (static_cast<int64_t>(bytes) - kRestBytes) / kIdBytes;
  if (at_least <= limits.context) return absl::OkStatus();
  return TooLong("token_ids", "text at the very least", at_least, limits.context);
}

absl::Status FitLengths(const LengthLimits& limits, const ServedModel& model, RequestSpec* spec) {
  const auto prompt = static_cast<int64_t>(spec->prompt.size());
  if (prompt == 0) {
    return InvalidArgument(Reason::kEmptyPrompt, "text",
                           "the prompt has no tokens; send some text");
  }
  if (limits.input > 0 && prompt > limits.input) {
    return TooLong("input", "prompt", prompt, limits.input);
  }
  const int64_t room = limits.context - prompt;
  if (room < 1) return TooLong("input", "prompt", prompt, limits.context - 1);
  StopParams& stop = spec->stop;
  if (stop.max_tokens > room) {
    return TooLong("input", "prompt and max_tokens", prompt + stop.max_tokens, limits.context);
  }
  if (stop.min_tokens > room) {
    return TooLong("input", "prompt and min_tokens", prompt + stop.min_tokens, limits.context);
  }
  if (spec->beams.on() && limits.pool > 0) {
    const int64_t tokens =
        BeamPoolTokens(prompt, std::max(1, stop.max_tokens), spec->beams.width, limits.block);
    if (tokens > limits.pool) {
      return TooLong("input", "prompt and max_tokens of each beam, in KV blocks", tokens,
                     limits.pool);
    }
  }
  if (stop.max_tokens == 0) SettleMaxTokens(limits, model, spec);
  return absl::OkStatus();
}

}  // namespace baton
