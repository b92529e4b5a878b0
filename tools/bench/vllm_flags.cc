#include "tools/bench/vllm_flags.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

constexpr std::array kVllmFlags = {
    VllmFlag{"request-rate", "rate", ""},
    VllmFlag{"max-concurrency", "concurrency", ""},
    VllmFlag{"num-prompts", "requests", ""},
    VllmFlag{"random-input-len", "input-tokens", ""},
    VllmFlag{"input-len", "input-tokens", ""},
    VllmFlag{"random-output-len", "output-tokens", ""},
    VllmFlag{"output-len", "output-tokens", ""},
    VllmFlag{"random-range-ratio", "", "--input-tokens LO:HI and --output-tokens LO:HI"},
    VllmFlag{"random-prefix-len", "", "--shared-prefix-tokens N, which --input-tokens includes"},
    VllmFlag{"dataset-name", "", "--prompts FILE, or nothing for random prompts"},
    VllmFlag{"dataset-path", "", "--prompts FILE (JSON lines), or --trace FILE"},
    VllmFlag{"ignore-eos", "", "--eos continue"},
    VllmFlag{"goodput", "", "--slo ttft=200ms,tpot=50ms"},
    VllmFlag{"host", "", "--server HOST:PORT"},
    VllmFlag{"port", "", "--server HOST:PORT"},
    VllmFlag{"base-url", "", "--protocol openai --server URL"},
    VllmFlag{"endpoint", "", "--server URL with what stands before /v1/completions"},
    VllmFlag{"backend", "", "--protocol baton or --protocol openai"},
    VllmFlag{"endpoint-type", "", "--protocol baton or --protocol openai"},
    VllmFlag{"served-model-name", "", "--model NAME"},
    VllmFlag{"api-key", "", "the environment variable OPENAI_API_KEY"},
    VllmFlag{"save-result", "", "--out FILE"},
    VllmFlag{"result-dir", "", "--out FILE"},
    VllmFlag{"result-filename", "", "--out FILE"},
    VllmFlag{"save-detailed", "", "--rows FILE"},
    VllmFlag{"num-warmups", "", "--warmup TIME"},
    VllmFlag{"percentile-metrics", "", "without it: every metric is printed and in --out"},
    VllmFlag{"metric-percentiles", "", "without it: P50 to P99.9 are printed and in --out"},
};

bool SameAnswer(const VllmFlag& a, const VllmFlag& b) {
  return a.alias_of == b.alias_of && a.instead == b.instead;
}

}  // namespace

std::span<const VllmFlag> VllmFlags() { return kVllmFlags; }

void BindVllmFlags(FlagSet* set) {
  for (const VllmFlag& flag : kVllmFlags) {
    if (flag.alias_of.empty()) {
      set->AddForeign(std::string(flag.name), std::string(flag.instead));
    } else {
      set->Edit(flag.alias_of).aliases.emplace_back(flag.name);
    }
  }
}

std::string VllmFlagsAsMarkdown() {
  std::string text = "| `vllm bench serve` | `baton bench` |\n|---|---|\n";
  std::string names;
  for (size_t i = 0; i < kVllmFlags.size(); ++i) {
    const VllmFlag& flag = kVllmFlags[i];
    absl::StrAppend(&names, names.empty() ? "" : ", ", "`--", std::string(flag.name), "`");
    const bool last = i + 1 == kVllmFlags.size();
    if (!last && SameAnswer(flag, kVllmFlags[i + 1])) continue;
    const std::string ours =
        flag.alias_of.empty() ? std::string(flag.instead)
                              : absl::StrCat("the same, or `--", std::string(flag.alias_of), "`");
    absl::StrAppend(&text, "| ", names, " | ", ours, " |\n");
    names.clear();
  }
  return text;
}

}  // namespace baton::bench
