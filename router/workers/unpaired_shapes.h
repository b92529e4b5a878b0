#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/kv_shape.h"

namespace baton {

// Finds workers whose KV blocks none of the other kind can hand over or take, because they were
// started otherwise. Nothing breaks by that, so that nothing else would tell: the decode workers
// compute all prompts themselves, and the prefill workers idle. Not thread-safe.
class UnpairedShapes final {
 public:
  // Warnings for people, of the shapes that the workers of a model have now, of each kind each
  // once. Those that held at the last call for the model are not given again.
  std::set<std::string> Look(const std::string& fingerprint, const std::vector<KvShape>& prefill,
                             const std::vector<KvShape>& decode);

 private:
  std::map<std::string, std::set<std::string>> told_;  // by model
};

}  // namespace baton
