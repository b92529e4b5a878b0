#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace re2 {
class RE2;
}

namespace baton {

// The modules that a checkpoint of compressed-tensors has in one of its groups: "targets", each the
// name of a module, a regular expression of names (a pattern) after "re:", or a class of modules,
// of which "Linear" is the one that all projections have. Copies share the patterns.
class ModuleTargets final {
 public:
  // How closely a module is meant, the closest last: where several groups mean a module, that which
  // does so most closely holds.
  enum class Match : uint8_t { kNone, kClass, kPattern, kName };

  // INVALID_ARGUMENT, naming `where`, for what is no list of texts, for more than 64 patterns, and
  // for a pattern of more than 256 bytes, one that RE2 does not know or does not take for what
  // Python does, and one that is large when it is compiled.
  static absl::StatusOr<ModuleTargets> Read(const nlohmann::json& targets,
                                            const std::string& where);

  // `module` is a name as in "model.layers.0.mlp.up_proj". A pattern has to match where the name
  // begins, not to its end.
  Match Matches(std::string_view module) const;
  // What Matches costs: the instructions of the patterns, each of which may be run for each
  // character.
  int64_t instructions() const { return instructions_; }

 private:
  absl::flat_hash_set<std::string> names_;
  std::vector<std::shared_ptr<const re2::RE2>> patterns_;
  int64_t instructions_ = 0;
  bool linear_ = false;
};

}  // namespace baton
