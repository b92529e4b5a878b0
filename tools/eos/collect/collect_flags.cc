#include "tools/eos/collect/collect_flags.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {
namespace {

constexpr IntRange kAnyCount = {.min = 1, .max = std::numeric_limits<int32_t>::max()};

absl::Status TakeTemperatures(CollectFlags* flags) {
  std::vector<float>* const numbers = &flags->grid.temperatures;
  numbers->clear();
  if (flags->temperatures.empty()) {
    return UsageError("--temperatures is empty", "expected numbers from 0 to 100",
                      "--temperatures 0,0.8,1.2");
  }
  for (const std::string& text : flags->temperatures) {
    float value = 0;
    if (!absl::SimpleAtof(text, &value) || !(value >= 0) || value > 100) {
      return UsageError(absl::StrCat("--temperatures has '", text, "'"),
                        "expected numbers from 0 to 100", "--temperatures 0,0.8,1.2");
    }
    if (std::find(numbers->begin(), numbers->end(), value) != numbers->end()) {
      return UsageError(absl::StrCat("--temperatures has ", text, " twice"),
                        "the requests of both would be the same", "each temperature once");
    }
    const std::string read = TemperatureText(value);
    if (std::any_of(numbers->begin(), numbers->end(),
                    [&](float other) { return TemperatureText(other) == read; })) {
      return UsageError(absl::StrCat("--temperatures has ", text, " and another that reads ", read),
                        "the ids of their requests, which have six digits, would be the same",
                        "temperatures that differ in six digits, or another --out for each");
    }
    numbers->push_back(value);
  }
  return absl::OkStatus();
}

absl::Status TakeTopP(CollectFlags* flags) {
  flags->grid.top_p = flags->top_p.value_or(1);
  if (flags->grid.top_p > 0 && flags->grid.top_p <= 1) return absl::OkStatus();
  return UsageError(absl::StrCat("--top-p is ", flags->grid.top_p),
                    "expected a number above 0 and at most 1", "--top-p 0.7, or 1 for off");
}

absl::Status CheckSeeds(const CollectGrid& grid) {
  if (int64_t{grid.first_seed} + grid.seeds <= std::numeric_limits<int32_t>::max()) {
    return absl::OkStatus();
  }
  return UsageError("--first-seed and --seeds are too large", "their sum must be below 2^31",
                    "--first-seed 1");
}

void BindGrid(FlagSet* set, CollectFlags* flags) {
  const std::string group = "Requests";
  CollectGrid* const grid = &flags->grid;
  Flag prompts = Valued(TextFlag("prompts", &flags->prompts), "FILE");
  prompts.required = true;
  set->Add(Common(With(std::move(prompts), group,
                       "JSON lines with prompt, messages or token_ids, and perhaps a family and "
                       "max_tokens")));
  set->Add(Common(With(IntFlag("seeds", &grid->seeds, kAnyCount), group,
                       "how many answers to each prompt at each temperature")));
  set->Add(
      With(IntFlag("first-seed", &grid->first_seed, {.min = 0}), group, "the first of the seeds"));
  set->Add(Common(With(Valued(CommaListFlag("temperatures", &flags->temperatures), "T,…"), group,
                       "temperatures of the draw; 0 = greedy")));
  set->Add(With(OptionalFloatFlag("top-p", &flags->top_p), group,
                "draw from the likeliest tokens that together have this probability; 1 = off"));
  set->Add(With(OptionalIntFlag("max-tokens", &grid->max_tokens, kAnyCount), group,
                "tokens to generate at most where a prompt has no max_tokens; default: what fits"));
  set->Add(With(SwitchFlag("hidden", &grid->hidden), group,
                "keep the products of the workers' probe file with each hidden state"));
  set->Add(With(IntFlag("concurrency", &flags->concurrency, {.min = 1, .max = 4096}), group,
                "requests under way at once"));
}

}  // namespace

void BindCollect(FlagSet* set, CollectFlags* flags) {
  BindGrid(set, flags);
  set->Add(With(Valued(TextFlag("model", &flags->model), "NAME"), "Server",
                "name of the model; default: the one that is served"));
  BindClient(set, &flags->client);
  Flag out = Valued(TextFlag("out", &flags->out), "DIR");
  out.required = true;
  set->Add(Common(With(std::move(out), "Output",
                       "folder for the answers; one that has some of them is gone on with")));
  set->AddCheck([flags] { return TakeTemperatures(flags); });
  set->AddCheck([flags] { return TakeTopP(flags); });
  set->AddCheck([flags] { return CheckSeeds(flags->grid); });
}

}  // namespace baton
