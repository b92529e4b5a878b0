#pragma once

#include <cstdint>
#include <span>

#include "common/base/ids.h"
#include "common/sched/proposal.h"
#include "common/sched/sequence.h"

namespace baton {

// What computing proposals has cost so far, and what it takes up now.
struct DraftFigures {
  uint64_t steps = 0;                         // of the draft model
  uint64_t tokens = 0;                        // that these fed
  double seconds = 0;                         // of the engine's thread
  int32_t blocks_total = 0, blocks_used = 0;  // of the draft's own KV pool
  uint64_t dropped = 0;  // sequences that gave their blocks up because that pool was full
};

// Who foretells what comes next in the sequences of an engine. The engine's thread calls it, but
// for operations_finished. Whatever it says, no token changes.
class ProposalSource {
 public:
  virtual ~ProposalSource() = default;

  // A sequence comes in. It may end without ever being asked about.
  virtual void Begin(SequenceId /*id*/, const SequenceSpec& /*spec*/) {}
  // Whether Prepare is to be called before proposals are asked for.
  virtual bool prepares() const { return false; }
  // Gets ready for all that will be asked next, together, and for what will be asked later: see
  // ProposalRequest::ahead. True if something was computed, so that more may be left to do.
  virtual bool Prepare(std::span<const ProposalRequest> /*asked*/) { return false; }
  // As Proposer says.
  virtual std::span<const TokenId> Propose(const ProposalRequest& asked) = 0;
  // The sequence is over.
  virtual void Forget(SequenceId id) = 0;

  virtual DraftFigures figures() const { return {}; }
  // Grows while Prepare computes, which may take long; any thread may ask.
  virtual uint64_t operations_finished() const { return 0; }
};

}  // namespace baton
