#include "router/workers/unpaired_shapes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr char kAdvice[] = "; start all with the same --kv-dtype and --block-size";

std::set<std::string> WarningsOf(const std::vector<KvShape>& prefill,
                                 const std::vector<KvShape>& decode) {
  std::set<std::string> warnings;
  if (prefill.empty() || decode.empty()) return warnings;
  for (const KvShape& from : prefill) {
    if (std::ranges::any_of(decode, [&](const KvShape& to) { return CanHandOver(from, to); }))
      continue;
    warnings.insert(absl::StrCat("prefill workers with KV blocks ", from.Describe(),
                                 " have no decode worker to hand over to; these have ",
                                 decode.front().Describe(), kAdvice));
  }
  for (const KvShape& to : decode) {
    if (std::ranges::any_of(prefill, [&](const KvShape& from) { return CanHandOver(from, to); }))
      continue;
    warnings.insert(absl::StrCat("decode workers with KV blocks ", to.Describe(),
                                 " can be given no prompt by a prefill worker; these have ",
                                 prefill.front().Describe(), kAdvice));
  }
  return warnings;
}

}  // namespace

std::set<std::string> UnpairedShapes::Look(const std::string& fingerprint,
                                           const std::vector<KvShape>& prefill,
                                           const std::vector<KvShape>& decode) {
  std::set<std::string> now = WarningsOf(prefill, decode);
  std::set<std::string> added;
  const auto told = told_.find(fingerprint);
  if (told == told_.end()) {
    added = now;
  } else {
    std::ranges::set_difference(now, told->second, std::inserter(added, added.end()));
  }
  if (now.empty()) {
    told_.erase(fingerprint);
  } else {
    told_[fingerprint] = std::move(now);
  }
  return added;
}

}  // namespace baton
