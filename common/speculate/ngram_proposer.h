#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"
#include "common/speculate/ngram_lookup.h"
#include "common/speculate/proposal_pace.h"

namespace baton {

// Proposes what may come next in the sequences of an engine, by looking their last ids up in prompt
// and answer. One thread uses it.
class NgramProposer {
 public:
  // At most `most` ids at a time.
  NgramProposer(NgramLengths lengths, int32_t most) : lengths_(lengths), most_(most) {}

  // Ids that may follow `history`, at most `most`, of which the first `drawing` are being drawn
  // already. Where these are not all, the sequence sits a step out, which is in vain if nothing can
  // be proposed behind the token that was drawn. `fed` and `accepted` say what came of those
  // proposed for this sequence before. The span is valid until the next call.
  std::span<const TokenId> Propose(SequenceId id, std::span<const TokenId> history, int32_t most,
                                   int32_t drawing, int64_t fed, int64_t accepted);
  // The sequence is over.
  void Forget(SequenceId id) { live_.erase(id); }
  size_t live() const { return live_.size(); }

 private:
  struct Live {
    NgramLookup lookup;
    ProposalPace pace;
    int64_t sat_out = 0;  // the length behind which it sat a step out for what was proposed last
  };

  const NgramLengths lengths_;
  const int32_t most_;
  absl::flat_hash_map<SequenceId, Live> live_;
};

}  // namespace baton
