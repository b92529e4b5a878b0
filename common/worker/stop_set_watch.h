#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/ids.h"
#include "common/sample/params.h"

namespace baton {

// Notices that an id is missing among a model's EOS ids: answers draw another special token where
// they could end, go on behind it, and do not come to an end by EOS either. It looks at answers
// that the engine itself ended, because a cancel says nothing. Not thread-safe.
class StopSetWatch {
 public:
  // So many answers have to pass a token before anything is said of it, and less than half of them
  // to end by EOS: special tokens inside answers, such as those around thoughts, are followed by
  // it.
  static constexpr int64_t kAnswers = 8;

  struct Suspect {
    TokenId id = 0;
    int64_t answers = 0;       // that went on behind it
    int64_t ended_by_eos = 0;  // of those
  };

  // Takes an answer that ended. Returns the first token that is to be told, once for all.
  std::optional<Suspect> Take(FinishReason reason, std::optional<TokenId> passed_special);

 private:
  std::map<TokenId, Suspect> seen_;
  bool told_ = false;
};

}  // namespace baton
