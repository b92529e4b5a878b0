#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {
namespace {

struct Setting {
  const char* flag;
  bool changed;
  std::vector<std::string> read_by;
};

// A setting that does nothing is refused. At its default it asks for nothing, and so it stands in
// the settings that `config print` writes for later.
absl::Status CheckRead(const Setting& setting, const std::vector<std::string>& policies) {
  const auto reads = [&](const std::string& name) {
    return std::ranges::find(setting.read_by, name) != setting.read_by.end();
  };
  if (!setting.changed || std::ranges::any_of(policies, reads)) return absl::OkStatus();
  return UsageError(
      absl::StrCat("--", setting.flag, " with --policy ", absl::StrJoin(policies, ",")),
      absl::StrCat("only ", absl::StrJoin(setting.read_by, " and "), " read it"),
      absl::StrCat("--policy ", setting.read_by.front(), ", or leave it out"));
}

}  // namespace

void BindPolicySettings(FlagSet* set, const std::string& group, PolicySettings* flags,
                        std::function<std::vector<std::string>()> policies) {
  set->Add(With(DoubleFlag("policy-quantile", &flags->quantile, {.min = 0.5, .max = 0.99}), group,
                "past-future: the quantile of the KV that all sequences are foreseen to hold "
                "together, which has to fit the cache; more is more careful"));
  set->Add(With(DoubleFlag("policy-gamma", &flags->gamma, {.min = 1e-6, .max = 10}), group,
                "remaining, boost: from shortest first (towards 0) to first come, first served "
                "(large), in 1/token"));
  set->Add(With(DoubleFlag("policy-preempt-until", &flags->preempt_until, {.min = 0, .max = 1}),
                group,
                "remaining: part of its expected length up to which a sequence may be displaced by "
                "a shorter one; 0 = none is"));
  set->Add(With(DoubleFlag("policy-promote-after", &flags->promote_after, {.min = 0.1, .max = 1e6}),
                group,
                "remaining: times the time that its answer is expected to take, after which a "
                "request waits no longer for shorter ones"));
  set->Add(With(IntFlag("policy-line", &flags->line, {.min = 0, .max = 1024}), group,
                "remaining, boost: requests that wait at a worker beyond those that can run, so "
                "that there is a choice; they have left the router's queue and its fairness"));
  set->AddCheck([flags, policies = std::move(policies)] {
    const std::vector<std::string> used = policies();
    const PolicySettings standard;
    const Setting settings[] = {
        {"policy-quantile", flags->quantile != standard.quantile, {"past-future"}},
        {"policy-line", flags->line != standard.line, {"remaining", "boost"}},
        {"policy-gamma", flags->gamma != standard.gamma, {"remaining", "boost"}},
        {"policy-preempt-until", flags->preempt_until != standard.preempt_until, {"remaining"}},
        {"policy-promote-after", flags->promote_after != standard.promote_after, {"remaining"}}};
    for (const Setting& setting : settings) {
      if (absl::Status read = CheckRead(setting, used); !read.ok()) return read;
    }
    return absl::OkStatus();
  });
}

}  // namespace baton
