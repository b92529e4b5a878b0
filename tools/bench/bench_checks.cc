#include "tools/bench/bench_checks.h"

#include <cmath>
#include <vector>

#include "common/base/status.h"

namespace baton::bench {
namespace {

constexpr char kExample[] = "baton bench --concurrency 8";

// Refuses pairs of settings of which one would silently do nothing.
struct Idle {
  bool found;
  const char* what;
  const char* why;
  const char* instead;
};

absl::Status Refuse(const std::vector<Idle>& pairs) {
  for (const Idle& pair : pairs) {
    if (pair.found) return UsageError(pair.what, pair.why, pair.instead);
  }
  return absl::OkStatus();
}

absl::Status CheckSearch(const FlagSet& set, const BenchFlags& flags) {
  const bool rate = flags.find_max == SearchKind::kRate;
  return Refuse({{!flags.trace.empty(), "--find-max with --trace", "a trace has its own arrivals",
                  "--find-max rate --input-tokens chat --output-tokens chat"},
                 {flags.slo.empty(), "--find-max without --slo",
                  "a maximum is one that keeps limits", "--slo ttft=200ms,tpot=50ms"},
                 {rate ? flags.concurrency.has_value() : flags.rate.has_value(),
                  "--find-max with a load of the other kind",
                  "--rate or --concurrency of the same kind is where the search starts",
                  "--find-max rate --rate 2"},
                 {set.Given("duration"), "--find-max with --duration",
                  "each point lasts until its percentile is decided",
                  "percentile=90 in --slo for a shorter search"},
                 {set.Given("requests"), "--find-max with --requests",
                  "each point gets as many as its percentile needs",
                  "percentile=90 in --slo for a shorter search"},
                 {set.Given("runs"), "--find-max with --runs",
                  "a search looks again at the values that bound its answer",
                  "the search again with another --seed"},
                 {flags.eos == EosChoice::kBoth, "--find-max with --eos both",
                  "a search is about one kind of end", "--eos continue"}});
}

// A rate and a concurrency: the one that was said nearer to the command line counts.
absl::Status ChooseLoop(const FlagSet& set, BenchFlags* flags) {
  if (!flags->rate || !flags->concurrency) return absl::OkStatus();
  const FlagSource rate = set.SourceOf("rate");
  const FlagSource concurrency = set.SourceOf("concurrency");
  if (rate == concurrency && std::isfinite(*flags->rate)) {
    return UsageError("both --rate and --concurrency are given",
                      "they exclude each other unless the rate is inf", "only one of them");
  }
  if (rate > concurrency) {
    flags->concurrency.reset();
  } else {
    flags->rate.reset();
  }
  return absl::OkStatus();
}

absl::Status CheckRate(const FlagSet& set, const BenchFlags& flags) {
  if (!flags.rate || std::isfinite(*flags.rate)) return absl::OkStatus();
  return Refuse({{flags.find_max != SearchKind::kNone, "--find-max with --rate inf",
                  "a search begins at a rate that can be doubled", "--rate 1"},
                 {set.Given("duration"), "--rate inf with --duration",
                  "all requests arrive at the start", "--requests N"},
                 {set.Given("warmup"), "--rate inf with --warmup",
                  "all requests arrive at the start", "--concurrency N --warmup TIME"},
                 {set.Given("arrivals") || set.Given("burstiness"),
                  "--rate inf with --arrivals or --burstiness",
                  "requests that arrive at once have no gaps", "without them"}});
}

absl::Status CheckLoad(const FlagSet& set, const BenchFlags& flags) {
  if (flags.explain) return absl::OkStatus();
  const bool search = flags.find_max != SearchKind::kNone;
  if (!search && !flags.rate && !flags.concurrency && flags.trace.empty()) {
    return UsageError("no load", "expected --rate, --concurrency, --trace or --find-max", kExample);
  }
  if (search) BATON_RETURN_IF_ERROR(CheckSearch(set, flags));
  BATON_RETURN_IF_ERROR(CheckRate(set, flags));
  const bool drawn = flags.rate || flags.find_max == SearchKind::kRate;
  return Refuse(
      {{set.Given("arrivals") && !drawn, "--arrivals without --rate",
        "users of a closed loop and traces have arrivals of their own", "--rate 5"},
       {set.Given("burstiness") && flags.arrivals != ArrivalProcess::kGamma,
        "--burstiness without --arrivals gamma", "other arrivals have none", "--arrivals gamma"},
       {set.Given("time-scale") && flags.trace.empty(), "--time-scale without --trace",
        "it stretches a trace's times", "--rate for another rate"},
       {set.Given("trace-block-tokens") && flags.trace.empty(),
        "--trace-block-tokens without --trace", "only a trace has hash ids", "--trace FILE"}});
}

absl::Status CheckPrompts(const FlagSet& set, const BenchFlags& flags) {
  const bool file = !flags.prompts.empty();
  const bool text = flags.prompt_form == PromptForm::kText;
  return Refuse(
      {{!flags.trace.empty() && (set.Given("input-tokens") || set.Given("output-tokens")),
        "--trace with --input-tokens or --output-tokens", "a trace has its own lengths",
        "only one of them"},
       {file && set.Given("shared-prefix-tokens"), "--prompts with --shared-prefix-tokens",
        "the prompts of a file are sent as they are", "only one of them"},
       {file && set.Given("prompt-form"), "--prompts with --prompt-form",
        "each line of the file has its form", "prompt for text, token_ids for ids"},
       {text && flags.tokenizer.empty(), "--prompt-form text without --tokenizer",
        "made prompts must have an exact number of tokens", "--tokenizer DIR"},
       {text && flags.vocab_size, "--prompt-form text with --vocab-size",
        "text is made of the tokenizer's words", "only --tokenizer"},
       {file && set.Given("prompt-salt"), "--prompts with --prompt-salt",
        "the prompts of a file are sent as they are", "only one of them"}});
}

absl::Status CheckProtocol(const FlagSet& set, const BenchFlags& flags) {
  if (flags.protocol == Protocol::kBaton) {
    return Refuse({{IsUrl(flags.client.server), "--server with a URL",
                    "the baton protocol is gRPC, expected HOST:PORT", "--protocol openai"},
                   {flags.vocab_size.has_value(), "--vocab-size with --protocol baton",
                    "such a server says which ids it takes", "without it"},
                   {flags.prompt_salt.has_value(), "--prompt-salt with --protocol baton",
                    "its prefix caches keep runs apart by themselves", "without it"}});
  }
  const bool counted = !flags.tokenizer.empty() || flags.vocab_size || !flags.prompts.empty();
  return Refuse(
      {{!counted, "--protocol openai without a vocabulary",
        "such a server does not say which token ids it takes",
        "--tokenizer DIR, or --vocab-size N"},
       {flags.eos == EosChoice::kMask, "--eos mask with --protocol openai",
        "it has only ignore_eos, by which Baton and vLLM feed EOS back", "--eos continue"},
       {set.Given("connections"), "--connections with --protocol openai",
        "every request under way has a connection of its own", "without it"},
       {set.Given("as-tenant"), "--as-tenant with --protocol openai",
        "tenants are named in gRPC's metadata", "without it"}});
}

}  // namespace

bool IsUrl(const std::string& server) {
  return server.starts_with("http://") || server.starts_with("https://");
}

absl::Status CheckBenchFlags(const FlagSet& set, BenchFlags* flags) {
  BATON_RETURN_IF_ERROR(ChooseLoop(set, flags));
  BATON_RETURN_IF_ERROR(CheckLoad(set, *flags));
  BATON_RETURN_IF_ERROR(CheckPrompts(set, *flags));
  return CheckProtocol(set, *flags);
}

}  // namespace baton::bench
