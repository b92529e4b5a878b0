#include "router/openai/openai_request.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "router/openai/json_body.h"
#include "router/openai/json_fields.h"
#include "router/openai/lacking_fields.h"
#include "router/openai/request_draft.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

// What /v1/completions gives that does not say how much it wants, as with OpenAI.
constexpr int32_t kUsualCompletionTokens = 16;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct BodyField {
  std::string_view name;
  const BodyJson& value;  // never null
};

template <auto setter>
absl::Status TakeSamplingFloat(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const float value, FloatOf(field.name, field.value));
  (draft->request.spec.mutable_sampling()->*setter)(value);
  return absl::OkStatus();
}

template <auto member>
absl::Status TakeInt32(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(draft->*member, Int32Of(field.name, field.value));
  return absl::OkStatus();
}

template <auto member>
absl::Status TakeBool(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(draft->*member, BoolOf(field.name, field.value));
  return absl::OkStatus();
}

absl::Status TakeModel(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(*draft->request.spec.mutable_model(), StringOf(field.name, field.value));
  return absl::OkStatus();
}

absl::Status TakeRequestId(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const std::string id, StringOf(field.name, field.value));
  draft->request.spec.set_request_id(id);
  return absl::OkStatus();
}

absl::Status TakeCacheSalt(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const std::string salt, StringOf(field.name, field.value));
  draft->request.spec.set_cache_salt(salt);
  return absl::OkStatus();
}

absl::Status TakePreset(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(*draft->request.spec.mutable_preset(), StringOf(field.name, field.value));
  return absl::OkStatus();
}

// -1 means no seed, as with vLLM.
absl::Status TakeSeed(const BodyField& field, RequestDraft* draft) {
  if (field.value.is_number_unsigned()) {
    draft->request.spec.mutable_sampling()->set_seed(field.value.get<uint64_t>());
    return absl::OkStatus();
  }
  const absl::StatusOr<int64_t> seed = IntegerOf(field.name, field.value);
  if (!seed.ok() || *seed < -1) {
    return WrongType(field.name, field.value, "a whole number from 0 to 18446744073709551615");
  }
  if (*seed >= 0) draft->request.spec.mutable_sampling()->set_seed(static_cast<uint64_t>(*seed));
  return absl::OkStatus();
}

// -1 means all, as with vLLM.
absl::Status TakeTopK(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const int32_t top_k, Int32Of(field.name, field.value));
  draft->request.spec.mutable_sampling()->set_top_k(top_k == -1 ? 0 : top_k);
  return absl::OkStatus();
}

template <auto setter>
absl::Status TakeSamplingInt(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const int32_t value, Int32Of(field.name, field.value));
  (draft->request.spec.mutable_sampling()->*setter)(value);
  return absl::OkStatus();
}

absl::Status TakeEarlyStopping(const BodyField& field, RequestDraft* draft) {
  v1::SamplingParams* const sampling = draft->request.spec.mutable_sampling();
  if (field.value == "never") {
    sampling->set_early_stopping(v1::EARLY_STOPPING_NEVER);
    return absl::OkStatus();
  }
  if (!field.value.is_boolean()) {
    return WrongType(field.name, field.value, "false, true or \"never\"");
  }
  sampling->set_early_stopping(field.value.get<bool>() ? v1::EARLY_STOPPING_TRUE
                                                       : v1::EARLY_STOPPING_FALSE);
  return absl::OkStatus();
}

absl::Status TakeMinTokens(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const int32_t tokens, Int32Of(field.name, field.value));
  draft->request.spec.mutable_stop()->set_min_tokens(tokens);
  return absl::OkStatus();
}

absl::Status TakeStop(const BodyField& field, RequestDraft* draft) {
  const BodyJson list = field.value.is_array() ? field.value : BodyJson::array({field.value});
  for (size_t i = 0; i < list.size(); ++i) {
    const BodyJson& entry = list[i];
    if (!entry.is_string() && field.value.is_array()) {
      return WrongType(ElementName(field.name, i), entry, "a string");
    }
    if (!entry.is_string()) return WrongType(field.name, entry, "a string or a list of strings");
    const auto& text = entry.get_ref<const std::string&>();
    draft->request.spec.mutable_stop()->add_stop(text);
  }
  return absl::OkStatus();
}

absl::Status TakeStopTokenIds(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, IdsOf(field.name, field.value));
  draft->request.spec.mutable_stop()->mutable_stop_token_ids()->Assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status TakeIncludeStop(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const bool include, BoolOf(field.name, field.value));
  draft->request.spec.mutable_stop()->set_include_stop_in_output(include);
  return absl::OkStatus();
}

absl::Status TakeLogitBias(const BodyField& field, RequestDraft* draft) {
  if (!field.value.is_object()) return WrongType(field.name, field.value, "an object");
  auto& biases = *draft->request.spec.mutable_sampling()->mutable_logit_bias();
  for (const auto& [key, value] : field.value.items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return InvalidArgument(Reason::kInvalidTokenId, field.name,
                             "a key of logit_bias is no id of a token; expected whole numbers");
    }
    // As "5" and "05".
    if (biases.contains(id)) {
      return InvalidArgument(
          Reason::kInvalidTokenId, field.name,
          absl::StrCat("logit_bias names the token ", id, " twice; name each once"));
    }
    BATON_ASSIGN_OR_RETURN(biases[id], FloatOf(field.name, value));
  }
  return absl::OkStatus();
}

absl::Status TakeSkipSpecial(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(const bool skip, BoolOf(field.name, field.value));
  draft->request.spec.mutable_output()->set_skip_special_tokens(skip);
  draft->request.shape.skip_special_tokens = skip;
  return absl::OkStatus();
}

absl::Status TakeAddSpecial(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(draft->request.special_tokens, BoolOf(field.name, field.value));
  return absl::OkStatus();
}

// Of completions a number of alternatives, of a chat a switch.
absl::Status TakeLogprobs(const BodyField& field, RequestDraft* draft) {
  if (draft->api == OpenAiApi::kChat) {
    BATON_ASSIGN_OR_RETURN(draft->logprobs, BoolOf(field.name, field.value));
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const int32_t count, Int32Of(field.name, field.value));
  draft->request.spec.mutable_output()->set_logprobs(count);
  return absl::OkStatus();
}

absl::Status TakeStream(const BodyField& field, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(draft->request.shape.stream, BoolOf(field.name, field.value));
  return absl::OkStatus();
}

using TakeField = absl::Status (*)(const BodyField& field, RequestDraft* draft);

template <absl::Status (*read)(const BodyJson&, RequestDraft*)>
absl::Status TakeObject(const BodyField& field, RequestDraft* draft) {
  return read(field.value, draft);
}

constexpr bool kAny = true, kNotAny = false;

struct BodyFieldRow {
  std::string_view name;
  TakeField take;
  bool completions = kAny;
  bool chat = kAny;
};

using Sampling = v1::SamplingParams;

constexpr BodyFieldRow kBodyFields[] = {
    {"model", TakeModel},
    {"prompt", TakeObject<ReadPrompt>, kAny, kNotAny},
    {"messages", TakeObject<ReadMessages>, kNotAny, kAny},
    {"max_tokens", TakeInt32<&RequestDraft::max_tokens>},
    {"max_completion_tokens", TakeInt32<&RequestDraft::max_completion_tokens>, kNotAny, kAny},
    {"temperature", TakeSamplingFloat<&Sampling::set_temperature>},
    {"top_p", TakeSamplingFloat<&Sampling::set_top_p>},
    {"presence_penalty", TakeSamplingFloat<&Sampling::set_presence_penalty>},
    {"frequency_penalty", TakeSamplingFloat<&Sampling::set_frequency_penalty>},
    {"logit_bias", TakeLogitBias},
    {"n", TakeSamplingInt<&Sampling::set_n>},
    {"best_of", TakeSamplingInt<&Sampling::set_best_of>, kAny, kNotAny},
    {"seed", TakeSeed},
    {"stop", TakeStop},
    {"stream", TakeStream},
    {"stream_options", TakeObject<ReadStreamOptions>},
    {"response_format", TakeObject<ReadResponseFormat>},
    {"logprobs", TakeLogprobs},
    {"echo", TakeBool<&RequestDraft::echo>, kAny, kNotAny},
    {"top_logprobs", TakeInt32<&RequestDraft::top_logprobs>, kNotAny, kAny},
    // vLLM's.
    {"top_k", TakeTopK},
    {"min_p", TakeSamplingFloat<&Sampling::set_min_p>},
    {"repetition_penalty", TakeSamplingFloat<&Sampling::set_repetition_penalty>},
    {"no_repeat_ngram_size", TakeSamplingInt<&Sampling::set_no_repeat_ngram_size>},
    {"use_beam_search", TakeBool<&RequestDraft::use_beam_search>},
    {"length_penalty", TakeSamplingFloat<&Sampling::set_length_penalty>},
    {"early_stopping", TakeEarlyStopping},
    {"guided_json", TakeObject<ReadGuidedJson>},
    {"guided_regex", TakeObject<ReadGuidedRegex>},
    {"guided_grammar", TakeObject<ReadGuidedGrammar>},
    {"guided_choice", TakeObject<ReadGuidedChoice>},
    {"ignore_eos", TakeBool<&RequestDraft::ignore_eos>},
    {"min_tokens", TakeMinTokens},
    {"stop_token_ids", TakeStopTokenIds},
    {"include_stop_str_in_output", TakeIncludeStop},
    {"skip_special_tokens", TakeSkipSpecial},
    {"add_special_tokens", TakeAddSpecial},
    {"cache_salt", TakeCacheSalt},
    {"request_id", TakeRequestId},
    // Baton's.
    {"preset", TakePreset},
    {"baton", TakeObject<ReadExtension>},
};

const BodyFieldRow* FindField(std::string_view name, OpenAiApi api) {
  const auto* row = std::ranges::find_if(kBodyFields, [&](const BodyFieldRow& r) {
    return r.name == name && (api == OpenAiApi::kChat ? r.chat : r.completions);
  });
  return row == std::end(kBodyFields) ? nullptr : row;
}

absl::Status ReadField(const std::string& name, const BodyJson& value, RequestDraft* draft) {
  if (const BodyFieldRow* row = FindField(name, draft->api); row != nullptr) {
    if (value.is_null()) return absl::OkStatus();
    return row->take({.name = name, .value = value}, draft);
  }
  if (IsLackingField(name)) return CheckLackingField(name, value);
  if (!IsIdleField(name)) draft->request.ignored.push_back(name);
  return absl::OkStatus();
}

absl::Status Conflict(std::string_view field, std::string_view message) {
  return InvalidArgument(Reason::kConflictingOptions, field, message);
}

absl::Status SettleLogprobs(RequestDraft* draft) {
  if (draft->api != OpenAiApi::kChat) return absl::OkStatus();
  if (draft->logprobs) {
    draft->request.spec.mutable_output()->set_logprobs(draft->top_logprobs.value_or(0));
  } else if (draft->top_logprobs.value_or(0) != 0) {
    return Conflict("top_logprobs", "top_logprobs stands without logprobs; set logprobs to true");
  }
  return absl::OkStatus();
}

// An echo has logprobs where the answer has some, as with OpenAI.
void SettleEcho(RequestDraft* draft) {
  if (!draft->echo) return;
  v1::OutputOptions& output = *draft->request.spec.mutable_output();
  output.set_echo(true);
  output.set_prompt_logprobs(output.has_logprobs());
}

// As many beams as answers, as with vLLM, or as best_of or baton.beam_width says.
absl::Status SettleBeams(RequestDraft* draft) {
  v1::SamplingParams* const sampling = draft->request.spec.mutable_sampling();
  const bool given = sampling->has_beam_width();
  if (given) {
    BATON_RETURN_IF_ERROR(
        CheckLimitAs("baton.beam_width", RequestLimit::kBeamWidth, sampling->beam_width()));
  }
  if (!draft->use_beam_search) return absl::OkStatus();
  if (!given) {
    const bool best_of = sampling->has_best_of();
    const int32_t answers = sampling->has_n() ? sampling->n() : 1;
    const int32_t width = best_of ? sampling->best_of() : answers;
    BATON_RETURN_IF_ERROR(CheckLimitAs(best_of ? "best_of" : "n", RequestLimit::kBeamWidth, width));
    sampling->set_beam_width(width);
    sampling->clear_best_of();
  }
  if (sampling->beam_width() > 1) return absl::OkStatus();
  return Conflict("use_beam_search",
                  "use_beam_search stands with one beam; say by n, best_of or baton.beam_width how "
                  "many there are");
}

// How many tokens there may be; none only where an echo of the prompt is asked for.
absl::Status SettleMaxTokens(RequestDraft* draft) {
  OpenAiRequest& request = draft->request;
  if (draft->max_completion_tokens) request.shape.names.max_tokens = "max_completion_tokens";
  const auto tokens =
      draft->max_completion_tokens ? draft->max_completion_tokens : draft->max_tokens;
  if (!tokens) return absl::OkStatus();
  if (*tokens < (draft->echo ? 0 : 1)) {
    const std::string field(request.shape.names.max_tokens);
    const bool chat = draft->api == OpenAiApi::kChat;
    return InvalidArgument(Reason::kInvalidMaxTokens, field,
                           absl::StrCat(field, " is ", *tokens, "; expected at least 1",
                                        chat ? "" : ", or 0 with echo for the prompt alone"));
  }
  request.spec.mutable_stop()->set_max_tokens(*tokens);
  return absl::OkStatus();
}

absl::Status SettleEos(RequestDraft* draft) {
  if (!draft->ignore_eos && !draft->eos) return absl::OkStatus();
  if (draft->ignore_eos && draft->eos == v1::EOS_POLICY_HONOR) {
    return Conflict("ignore_eos",
                    "ignore_eos is true and baton.eos is honor; expected one of them");
  }
  draft->request.spec.mutable_stop()->set_eos_policy(
      draft->eos.value_or(v1::EOS_POLICY_IGNORE_CONTINUE));
  return absl::OkStatus();
}

// What depends on more than one field.
absl::Status Settle(RequestDraft* draft) {
  OpenAiRequest& request = draft->request;
  const bool chat = draft->api == OpenAiApi::kChat;
  if (!draft->has_input) {
    return InvalidArgument(
        Reason::kEmptyPrompt, chat ? "messages" : "prompt",
        chat ? "there are no messages; send at least one" : "there is no prompt; send some text");
  }
  if (draft->has_stream_options && !request.shape.stream) {
    return Conflict("stream_options", "stream_options stands without stream; set stream to true");
  }
  if (request.spec.sampling().has_n()) request.shape.answers = request.spec.sampling().n();
  if (!chat) request.usual_max_tokens = kUsualCompletionTokens;
  std::ranges::sort(request.ignored);
  const auto [end, last] = std::ranges::unique(request.ignored);
  request.ignored.erase(end, last);
  BATON_RETURN_IF_ERROR(SettleMaxTokens(draft));
  BATON_RETURN_IF_ERROR(SettleLogprobs(draft));
  BATON_RETURN_IF_ERROR(SettleBeams(draft));
  SettleEcho(draft);
  return SettleEos(draft);
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiApi api, std::string_view body) {
  // Some clients write files and bodies alike. The parser passes over it; what is passed on as it
  // was written is looked for from the first brace on.
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());
  BATON_ASSIGN_OR_RETURN(const BodyJson json, ParseJsonBody(api, body));
  RequestDraft draft{.api = api, .request = {}, .body = body};
  for (const auto& [name, value] : json.items()) {
    BATON_RETURN_IF_ERROR(ReadField(name, value, &draft));
  }
  BATON_RETURN_IF_ERROR(Settle(&draft));
  return std::move(draft.request);
}

}  // namespace baton
