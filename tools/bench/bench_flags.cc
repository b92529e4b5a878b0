#include "tools/bench/bench_flags.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "tools/bench/bench_checks.h"
#include "tools/bench/vllm_flags.h"

namespace baton::bench {
namespace {

constexpr int32_t kMaxStreams = 65536;

// A URL is taken as it is: only the openai protocol accepts one, and checks it when it connects.
Flag ServerFlag(std::string* target) {
  Flag flag = AddressFlag("server", target);
  flag.value = "HOST:PORT|URL";
  flag.set = [target, address = flag.set](const std::vector<std::string>& values) -> absl::Status {
    const std::string& text = values.back();
    if (!IsUrl(text)) return address(values);
    *target = text;
    return absl::OkStatus();
  };
  return flag;
}

void BindTarget(FlagSet* set, BenchFlags* flags) {
  const std::string group = "Server";
  set->Add(Common(With(ServerFlag(&flags->client.server), group,
                       "address of the router; with --protocol openai a URL may carry a path")));
  const Choices<Protocol> protocols = {{"baton", Protocol::kBaton}, {"openai", Protocol::kOpenAi}};
  set->Add(Common(With(ChoiceFlag("protocol", &flags->protocol, protocols), group,
                       "gRPC, or HTTP with server-sent events (/v1/completions); a key is taken "
                       "from --api-key-file or OPENAI_API_KEY")));
  set->Add(With(Valued(TextFlag("model", &flags->model), "NAME"), group,
                "name of the model; default: the one that is served"));
  set->Add(With(TagFlag(&flags->tag), group,
                "a word for the summaries of the server's EOS log; at most 64 bytes. With "
                "--protocol openai only Baton knows it"));
  set->Add(With(DurationFlag("timeout", &flags->client.timeout, std::chrono::seconds(1)), group,
                "how long a request may take"));
  BindAsTenant(set, &flags->client);
  BindApiKey(set, &flags->client, "BATON_API_KEY, with --protocol openai OPENAI_API_KEY");
  set->Add(With(IntFlag("connections", &flags->connections, {.min = 1, .max = 256}), group,
                "TCP connections that gRPC streams share"));
  set->Add(Common(With(Valued(CommaListFlag("metrics", &flags->metrics), "HOST:PORT,…"), group,
                       "admin ports of router and workers to read /metrics from")));
  BindTls(set, &flags->client.tls);
}

// A number, or "inf".
Flag RateFlag(std::optional<double>* target) {
  Flag flag = OptionalDoubleFlag("rate", target, {.min = 1e-3, .max = 1e6});
  flag.value = "X|inf";
  flag.set = [target, finite = flag.set](const std::vector<std::string>& values) -> absl::Status {
    if (values.back() != "inf") return finite(values);
    *target = std::numeric_limits<double>::infinity();
    return absl::OkStatus();
  };
  return flag;
}

void BindLoad(FlagSet* set, BenchFlags* flags) {
  const std::string group = "Load";
  set->Add(
      Common(With(RateFlag(&flags->rate), group,
                  "open loop: requests per second, whatever becomes of them; inf: all at once, "
                  "or as --concurrency allows")));
  Flag concurrency =
      OptionalIntFlag("concurrency", &flags->concurrency, {.min = 1, .max = kMaxStreams});
  set->Add(Common(With(std::move(concurrency), group,
                       "closed loop: this many requests under way at all times")));
  Flag trace = InputFlag("trace", &flags->trace);
  trace.exclusive_with = "rate";
  set->Add(Common(With(std::move(trace), group,
                       "arrivals and lengths of a CSV (Azure) or JSONL (Mooncake) trace")));
  set->Add(With(DoubleFlag("time-scale", &flags->time_scale, {.min = 1e-3, .max = 1e3}), group,
                "factor on the trace's times: 2 = half the rate"));
  set->Add(With(IntFlag("trace-block-tokens", &flags->trace_block_tokens, {.min = 1}), group,
                "tokens that a hash id of the trace stands for"));
  const Choices<ArrivalProcess> arrivals = {{"poisson", ArrivalProcess::kPoisson},
                                            {"constant", ArrivalProcess::kConstant},
                                            {"gamma", ArrivalProcess::kGamma}};
  set->Add(With(ChoiceFlag("arrivals", &flags->arrivals, arrivals), group,
                "how the gaps of --rate are drawn"));
  set->Add(With(DoubleFlag("burstiness", &flags->burstiness, {.min = 1e-2, .max = 1e4}), group,
                "shape of --arrivals gamma: 1 = Poisson, less = bursts"));
  set->Add(With(DurationFlag("warmup", &flags->warmup, std::chrono::seconds(1)), group,
                "load before the measured part"));
  set->Add(Common(With(DurationFlag("duration", &flags->duration, std::chrono::seconds(1)), group,
                       "length of the measured part")));
  Flag requests = OptionalIntFlag("requests", &flags->requests, {.min = 1, .max = 10'000'000});
  requests.exclusive_with = "duration";
  set->Add(Common(
      With(std::move(requests), group,
           "how many: after the warm-up, in a closed loop in all; default: 200, or 4 for each of "
           "--concurrency if that is more")));
  set->Add(Common(With(IntFlag("runs", &flags->runs, {.min = 1, .max = 100}), group,
                       "repetitions, each with a seed of its own")));
  set->Add(With(IntFlag("seed", &flags->seed, {.min = 0, .max = INT32_MAX}), group,
                "seed of arrivals, lengths and prompts"));
  set->Add(With(OptionalIntFlag("prompt-salt", &flags->prompt_salt, {.min = 0, .max = INT32_MAX}),
                group, "openai: other prompts for the same seed; default: drawn, and printed"));
}

void BindRequests(FlagSet* set, BenchFlags* flags) {
  const std::string group = "Requests";
  set->Add(Common(With(Valued(TextFlag("input-tokens", &flags->input_tokens), "D"), group,
                       "prompt length: N, LO:HI or a named distribution")));
  set->Add(Common(With(Valued(TextFlag("output-tokens", &flags->output_tokens), "D"), group,
                       "max_tokens: N, LO:HI or a named distribution")));
  Flag prompts = InputFlag("prompts", &flags->prompts);
  prompts.exclusive_with = "input-tokens";
  set->Add(
      With(std::move(prompts), group, "JSON lines with prompt or token_ids, instead of made ones"));
  set->Add(With(IntFlag("shared-prefix-tokens", &flags->shared_prefix_tokens, {.min = 0}), group,
                "tokens that all prompts begin with, fewer than the longest has"));
  const Choices<PromptForm> forms = {{"ids", PromptForm::kIds}, {"text", PromptForm::kText}};
  set->Add(With(ChoiceFlag("prompt-form", &flags->prompt_form, forms), group,
                "how prompts are sent; text needs --tokenizer"));
  set->Add(With(Valued(TextFlag("tokenizer", &flags->tokenizer), "DIR"), group,
                "model directory whose tokenizer counts, for servers that cannot be asked"));
  set->Add(With(OptionalIntFlag("vocab-size", &flags->vocab_size, {.min = 2}), group,
                "ids to draw prompts from, EOS not left out, for servers that cannot be asked"));
  const Choices<EosChoice> eos = {{"honor", EosChoice::kHonor},
                                  {"mask", EosChoice::kMask},
                                  {"continue", EosChoice::kContinue},
                                  {"both", EosChoice::kBoth}};
  set->Add(Common(With(ChoiceFlag("eos", &flags->eos, eos), group,
                       "end at EOS; or force --output-tokens, masking EOS or feeding it back; or "
                       "natural and forced ends in turn. --protocol openai has no mask")));
  set->Add(With(DoubleFlag("temperature", &flags->temperature, {.min = 0, .max = 100}), group,
                "of the draw; 0 = greedy"));
}

void BindResults(FlagSet* set, BenchFlags* flags) {
  const std::string group = "Results";
  set->Add(Common(With(Valued(TextFlag("slo", &flags->slo), "ttft=200ms,tpot=50ms"), group,
                       "limits at a percentile (99), or reader=silent|listening|visual")));
  const Choices<SearchKind> kinds = {{"rate", SearchKind::kRate},
                                     {"concurrency", SearchKind::kConcurrency}};
  set->Add(Common(With(ChoiceFlag("find-max", &flags->find_max, kinds), group,
                       "search the highest load that keeps --slo")));
  set->Add(Common(With(Valued(TextFlag("out", &flags->out), "FILE"), group,
                       "where to write all figures, JSON")));
  set->Add(Common(With(Valued(TextFlag("rows", &flags->rows), "FILE"), group,
                       "where to write one raw line per request, JSONL")));
  set->Add(Common(
      With(Valued(TextFlag("plots", &flags->plots), "DIR"), group, "where to draw pictures, SVG")));
  set->Add(Common(With(SwitchFlag("explain", &flags->explain), group,
                       "print the formula of every figure, and end")));
}

}  // namespace

void BindBench(FlagSet* set, BenchFlags* flags) {
  BindLoad(set, flags);
  BindRequests(set, flags);
  BindResults(set, flags);
  BindTarget(set, flags);
  BindVllmFlags(set);
  set->AddCheck([set, flags] { return CheckBenchFlags(*set, flags); });
}

std::string Caution(const BenchFlags& flags) {
  if (flags.eos != EosChoice::kBoth || !flags.prompts.empty()) return "";
  return "--eos both with made prompts: an answer to random token ids hardly ever ends by itself, "
         "so "
         "natural and forced lengths will be the same. Try: --prompts FILE, as "
         "models/demo/prompts.jsonl";
}

double Burstiness(const BenchFlags& flags) {
  if (flags.arrivals == ArrivalProcess::kConstant) return std::numeric_limits<double>::infinity();
  return flags.arrivals == ArrivalProcess::kGamma ? flags.burstiness : 1;
}

std::string ArrivalsName(const BenchFlags& flags) {
  if (!flags.trace.empty()) return "trace";
  if (!flags.rate && flags.find_max != SearchKind::kRate) return "";
  switch (flags.arrivals) {
    case ArrivalProcess::kPoisson:
      return "poisson";
    case ArrivalProcess::kConstant:
      return "constant";
    case ArrivalProcess::kGamma:
      return "gamma";
  }
  return "";
}

}  // namespace baton::bench
