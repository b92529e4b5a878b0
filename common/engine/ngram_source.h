#pragma once

#include <cstdint>
#include <span>

#include "common/engine/proposal_source.h"
#include "common/speculate/ngram_proposer.h"

namespace baton {

// Foretells by looking up what followed the last ids before.
class NgramSource final : public ProposalSource {
 public:
  NgramSource(NgramLengths lengths, int32_t most) : proposer_(lengths, most) {}

  std::span<const TokenId> Propose(const ProposalRequest& asked) override {
    return proposer_.Propose(asked.sequence, asked.history, asked.most, asked.drawing ? 1 : 0,
                             asked.fed, asked.accepted);
  }
  void Forget(SequenceId id) override { proposer_.Forget(id); }

 private:
  NgramProposer proposer_;
};

}  // namespace baton
