#include "tools/generate/generate_flags.h"

#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/sample/presets.h"

namespace baton {
namespace {

constexpr IntRange kAnyInt = {.min = INT32_MIN, .max = INT32_MAX};  // the server judges

void BindLengths(FlagSet* set, RequestFlags* flags) {
  const std::string group = "Length and end";
  set->Add(Common(With(OptionalIntFlag("max-tokens", &flags->max_tokens, kAnyInt), group,
                       "tokens to generate at most, EOS included; default: what fits")));
  set->Add(With(OptionalIntFlag("min-tokens", &flags->min_tokens, kAnyInt), group,
                "tokens to generate at least; until then neither EOS nor a stop ends it"));
  set->Add(With(OptionalIntFlag("length-target", &flags->length_target, kAnyInt), group,
                "tokens that the answer is pulled towards; with --length-strength"));
  set->Add(With(OptionalFloatFlag("length-strength", &flags->length_strength), group,
                "how hard; added to the logit of EOS at twice the length, taken from it at the "
                "start; above 0, at most 100"));
  set->Add(Common(With(TextListFlag("stop", &flags->stop), group,
                       "end before this text; may be given several times")));
  Flag ids = Valued(IntListFlag("stop-token-id", &flags->stop_token_ids), "ID");
  set->Add(With(std::move(ids), group, "end at this token; may be given several times"));
  using baton::v1::EosPolicy;
  const Choices<EosPolicy> policies = {{"honor", baton::v1::EOS_POLICY_HONOR},
                                       {"continue", baton::v1::EOS_POLICY_IGNORE_CONTINUE},
                                       {"mask", baton::v1::EOS_POLICY_IGNORE_MASK}};
  set->Add(Common(With(ChoiceFlag("eos", &flags->eos, policies), group,
                       "end at EOS; or run to --max-tokens, feeding EOS back or masking it")));
  set->Add(Common(With(SwitchFlag("eos-steps", &flags->eos_steps), group,
                       "report the EOS probability of every step")));
  set->Add(With(SwitchFlag("eos-probe", &flags->eos_probe), group,
                "report it with the products of the workers' probe"));
  set->Add(With(SwitchFlag("predict", &flags->predict), group,
                "report at every step when the answer is expected to end"));
}

void BindSampling(FlagSet* set, RequestFlags* flags) {
  const std::string group = "Sampling";
  const auto real = [&](const char* name, std::optional<float>* target, const char* help) {
    set->Add(With(OptionalFloatFlag(name, target), group, help));
  };
  set->Add(
      Common(With(Valued(TextFlag("preset", &flags->preset), "NAME"), group,
                  "what the flags below leave out, for a kind of task: " + SamplingPresetNames())));
  set->Add(Common(With(OptionalFloatFlag("temperature", &flags->temperature), group,
                       "of the draw; 0 = greedy; default: the model's")));
  set->Add(With(OptionalIntFlag("top-k", &flags->top_k, kAnyInt), group,
                "draw from this many of the likeliest tokens; 0 = off"));
  real("top-p", &flags->top_p,
       "draw from the likeliest tokens that together have this probability; 1 = off");
  real("min-p", &flags->min_p,
       "leave out tokens less likely than this share of the likeliest; 0 = off");
  real("repetition-penalty", &flags->repetition_penalty,
       "above 1 makes tokens of prompt and output less likely; 1 = off");
  real("presence-penalty", &flags->presence_penalty,
       "taken from the logit of each token that the output holds; 0 = off");
  real("frequency-penalty", &flags->frequency_penalty,
       "taken from a token's logit for each time that the output holds it; 0 = off");
  set->Add(With(OptionalIntFlag("no-repeat-ngram-size", &flags->no_repeat_ngram_size, kAnyInt),
                group, "no run of this many tokens occurs twice; 0 = off"));
  set->Add(Common(With(OptionalUint64Flag("seed", &flags->seed), group,
                       "the same seed gives the same tokens; default: drawn by the server")));
  set->Add(With(OptionalIntFlag("logprobs", &flags->logprobs, kAnyInt), group,
                "alternatives to report per token; 0 = the drawn one only"));
}

void BindBeams(FlagSet* set, RequestFlags* flags) {
  const std::string group = "Beams";
  set->Add(With(OptionalIntFlag("beam-width", &flags->beam_width, kAnyInt), group,
                "search with this many beams in place of drawing, and show the best --n answers"));
  set->Add(
      With(OptionalFloatFlag("length-penalty", &flags->length_penalty), group,
           "score of an answer: its logprobs, divided by its length to this power; default 1"));
  using baton::v1::EarlyStopping;
  const Choices<EarlyStopping> rules = {{"false", baton::v1::EARLY_STOPPING_FALSE},
                                        {"true", baton::v1::EARLY_STOPPING_TRUE},
                                        {"never", baton::v1::EARLY_STOPPING_NEVER}};
  set->Add(With(ChoiceFlag("early-stopping", &flags->early_stopping, rules), group,
                "end with --beam-width answers found: when no better one is likely, at once, or "
                "when none is possible"));
}

}  // namespace

void BindRequest(FlagSet* set, RequestFlags* flags) {
  set->Add(With(Valued(TextFlag("model", &flags->model), "NAME"), "Server",
                "name of the model; default: the one that is served"));
  set->Add(With(
      TagFlag(&flags->tag), "Server",
      "a word that the router's EOS log keeps with each request, such as the prompt family; at "
      "most 64 bytes"));
  BindLengths(set, flags);
  BindSampling(set, flags);
  set->AddCheck([flags] {
    if (flags->length_target.has_value() == flags->length_strength.has_value()) {
      return absl::OkStatus();
    }
    const bool target = flags->length_target.has_value();
    return UsageError(target ? "--length-target without --length-strength"
                             : "--length-strength without --length-target",
                      "each needs the other",
                      target ? "--length-strength 5" : "--length-target 200");
  });
}

void BindGenerate(FlagSet* set, GenerateFlags* flags) {
  const std::string group = "Prompts";
  set->Add(Common(With(TextFlag("prompt", &flags->prompt), group, "one prompt")));
  Flag file = Valued(TextFlag("prompts", &flags->prompts_file), "FILE|-");
  file.exclusive_with = "prompt";
  set->Add(Common(With(std::move(file), group,
                       "JSON lines with prompt, token_ids or messages; - = standard input")));
  set->Add(Common(
      With(SwitchFlag("chat", &flags->chat), group, "put prompts into the model's chat template")));
  set->Add(With(IntFlag("concurrency", &flags->concurrency, {.min = 1, .max = 4096}), group,
                "requests under way at once"));
  BindRequest(set, &flags->request);
  set->Add(With(OptionalIntFlag("n", &flags->request.n, kAnyInt), "Sampling",
                "answers to each prompt, each drawn by itself"));
  set->Add(With(OptionalIntFlag("best-of", &flags->request.best_of, kAnyInt), "Sampling",
                "draw this many answers and show the best --n of them, by their mean logprob"));
  BindBeams(set, &flags->request);
  BindClient(set, &flags->client);
  set->Add(Common(With(SwitchFlag("json", &flags->json), "Output",
                       "one JSON line per request, in the order of the prompts")));
  set->AddCheck([set] {
    if (set->Given("prompt") || set->Given("prompts")) return absl::OkStatus();
    return UsageError("no prompt", "expected --prompt or --prompts",
                      "baton generate --prompt \"Once upon a time\"");
  });
}

baton::v1::GenerationSpec SpecOf(const RequestFlags& flags) {
  baton::v1::GenerationSpec spec;
  spec.set_model(flags.model);
  spec.set_tag(flags.tag);
  spec.set_preset(flags.preset);
  auto* sampling = spec.mutable_sampling();
  if (flags.temperature) sampling->set_temperature(*flags.temperature);
  if (flags.top_p) sampling->set_top_p(*flags.top_p);
  if (flags.top_k) sampling->set_top_k(*flags.top_k);
  if (flags.min_p) sampling->set_min_p(*flags.min_p);
  if (flags.repetition_penalty) sampling->set_repetition_penalty(*flags.repetition_penalty);
  if (flags.presence_penalty) sampling->set_presence_penalty(*flags.presence_penalty);
  if (flags.frequency_penalty) sampling->set_frequency_penalty(*flags.frequency_penalty);
  if (flags.no_repeat_ngram_size) sampling->set_no_repeat_ngram_size(*flags.no_repeat_ngram_size);
  if (flags.seed) sampling->set_seed(*flags.seed);
  if (flags.n) sampling->set_n(*flags.n);
  if (flags.best_of) sampling->set_best_of(*flags.best_of);
  if (flags.beam_width) sampling->set_beam_width(*flags.beam_width);
  if (flags.length_penalty) sampling->set_length_penalty(*flags.length_penalty);
  sampling->set_early_stopping(flags.early_stopping);
  auto* stop = spec.mutable_stop();
  if (flags.max_tokens) stop->set_max_tokens(*flags.max_tokens);
  if (flags.min_tokens) stop->set_min_tokens(*flags.min_tokens);
  if (flags.length_target) stop->mutable_length_control()->set_target(*flags.length_target);
  if (flags.length_strength) stop->mutable_length_control()->set_strength(*flags.length_strength);
  for (const std::string& text : flags.stop) stop->add_stop(text);
  for (const int32_t id : flags.stop_token_ids) stop->add_stop_token_ids(id);
  stop->set_eos_policy(flags.eos);
  if (flags.logprobs) spec.mutable_output()->set_logprobs(*flags.logprobs);
  spec.mutable_eos()->set_steps(flags.eos_steps);
  spec.mutable_eos()->set_probe(flags.eos_probe);
  spec.mutable_eos()->set_predict(flags.predict);
  return spec;
}

}  // namespace baton
