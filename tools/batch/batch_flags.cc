#include "tools/batch/batch_flags.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "tools/bench/bench_checks.h"

namespace baton::batch {
namespace {

constexpr std::string_view kOwn = "Own workers";
constexpr int32_t kMaxConcurrency = 16'384;
constexpr std::array<std::string_view, 10> kServeGroups = {
    kOwn,          "Batching",    "KV cache",   "Device",     "Ends",
    "Speculation", "Draft model", "Preemption", "Prediction", "Handoff"};

Flag Positional(std::string name, std::string* target, std::string shown, std::string help,
                bool required) {
  Flag flag = Valued(TextFlag(std::move(name), target), std::move(shown));
  flag.help = std::move(help);
  flag.positional = true;
  flag.required = required;
  return flag;
}

Flag ServerFlag(std::string* target) {
  Flag flag = AddressFlag("server", target);
  flag.value = "HOST:PORT|URL";
  flag.set = [target, address = flag.set](const std::vector<std::string>& values) -> absl::Status {
    const std::string& text = values.back();
    if (!bench::IsUrl(text)) {
      if (address(values).ok()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          "found '", text, "', expected host:port of a router, or http:// or https:// and a host"));
    }
    *target = text;
    return absl::OkStatus();
  };
  return flag;
}

void BindLines(FlagSet* set, BatchFlags* flags) {
  const std::string group = "Batch";
  set->Add(Common(
      With(OptionalIntFlag("concurrency", &flags->concurrency, {.min = 1, .max = kMaxConcurrency}),
           group,
           "requests under way at once, fewer while the service says it is full; default: twice "
           "the places of own decode workers, 128 at a service")));
  set->Add(Common(With(Valued(TextFlag("part", &flags->part_text), "I/N"), group,
                       "do every Nth line only, from the Ith on, counted from 0; index/N takes I "
                       "from JOB_COMPLETION_INDEX")));
  set->Add(Common(With(SwitchFlag("retry-failed", &flags->retry_failed), group,
                       "take the answers that are errors out of OUT, and ask for them again")));
  set->Add(With(DurationFlag("patience", &flags->patience, std::chrono::seconds(1)), group,
                "how long to go on while the service is away or takes nothing"));
}

void BindService(FlagSet* set, BatchFlags* flags) {
  const std::string group = "Server";
  ClientFlags* const client = &flags->client;
  set->Add(Common(With(ServerFlag(&client->server), group,
                       "address of a service that speaks the OpenAI protocol, with which MODEL is "
                       "left out; a URL may carry a path")));
  set->Add(With(DurationFlag("timeout", &client->timeout, std::chrono::seconds(1)), group,
                "how long a request may take"));
  BindAsTenant(set, client);
  BindApiKey(set, client, "OPENAI_API_KEY");
  BindClientTls(set, &client->tls);
}

void BindOwn(FlagSet* set, BatchFlags* flags) {
  const std::string group(kOwn);
  ServeFlags* const own = &flags->own;
  set->Add(Common(With(IntFlag("prefill", &own->prefill, {.min = 1, .max = 256}), group,
                       "number of prefill workers")));
  set->Add(Common(With(IntFlag("decode", &own->decode, {.min = 1, .max = 256}), group,
                       "number of decode workers")));
  set->Add(Common(
      With(ChoiceFlag("mode", &own->unified, Choices<bool>{{"split", false}, {"unified", true}}),
           group, "unified: decode workers prefill too, there are no others")));
  BindServedModelName(set, &own->router.served_model_name, &flags->model, group,
                      "the name that lines use; default: last part of MODEL");
  set->Add(With(Valued(TextFlag("eos-log", &own->router.eos_log), "FILE"), group,
                "where to write one JSON line per generated token; default: nowhere"));
  BindEngine(set, &own->engine);
  BindDraft(set, &own->draft, &own->engine);
  BindSwap(set, &own->swap);
  BindPrediction(set, &own->prediction);
  BindHandoff(set, &own->handoff);
  set->Remove("max-num-queued-reqs");
}

bool IsOwn(const Flag& flag) {
  return std::find(kServeGroups.begin(), kServeGroups.end(), flag.group) != kServeGroups.end();
}

// A setting that nothing would follow is a mistake, wherever it stands.
absl::Status CheckWays(const FlagSet& set, const BatchFlags& flags) {
  const bool own = !flags.model.empty();
  if (own && set.SourceOf("server") == FlagSource::kCommandLine) {
    return UsageError("--server and MODEL", "lines go to a service or to workers of their own",
                      "one of them");
  }
  for (const Flag& flag : set.flags()) {
    if (own || !IsOwn(flag) || set.SourceOf(flag.name) != FlagSource::kCommandLine) continue;
    return UsageError(absl::StrCat("--", flag.name, " without MODEL"),
                      "it is for workers that are started here, and there are none",
                      "baton batch IN OUT MODEL");
  }
  return absl::OkStatus();
}

}  // namespace

void BindBatch(FlagSet* set, BatchFlags* flags) {
  set->Add(Positional("input", &flags->in, "IN", "requests, one JSON object on each line", true));
  set->Add(
      Positional("output", &flags->out, "OUT", "answers; one that has some is gone on with", true));
  set->Add(Positional("model-dir", &flags->model, "MODEL",
                      "model directory, for which workers are started", false));
  BindLines(set, flags);
  BindService(set, flags);
  BindOwn(set, flags);
  set->AddCheck([set, flags] { return CheckWays(*set, *flags); });
  set->AddCheck([flags]() -> absl::Status {
    flags->part = {};
    if (flags->part_text.empty()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(flags->part, ParsePart(flags->part_text));
    return absl::OkStatus();
  });
}

int32_t ConcurrencyOf(const BatchFlags& flags) {
  constexpr int32_t kAtAService = 128;
  if (flags.concurrency) return *flags.concurrency;
  if (flags.model.empty()) return kAtAService;
  const int64_t places = int64_t{flags.own.decode} * flags.own.engine.max_num_seqs;
  return static_cast<int32_t>(std::min<int64_t>(2 * places, kMaxConcurrency));
}

std::vector<std::string> ServeArguments(const FlagSet& set, const BatchFlags& flags) {
  std::vector<std::string> arguments = {flags.model,      "--host=127.0.0.1", "--port=0",
                                        "--admin-port=0", "--http-port=0",    "--log-level=warn",
                                        "--eos-log=off"};
  for (const Flag& flag : set.flags()) {
    if (!IsOwn(flag) || !set.Given(flag.name)) continue;
    for (const std::string& value : flag.get()) {
      arguments.push_back(absl::StrCat("--", flag.name, "=", value));
    }
  }
  return arguments;
}

}  // namespace baton::batch
