#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/engine/proposal_source.h"
#include "common/kv/block_pool.h"
#include "common/kv/block_table.h"
#include "common/model/model_runner.h"
#include "common/sample/ngram_index.h"
#include "common/sample/params.h"
#include "common/sample/stop.h"
#include "common/speculate/proposal_pace.h"
#include "kernels/paged_kv.h"

namespace baton {

struct DraftOptions {
  int32_t max_rows = 64;         // of a step of the draft: as many as sequences run or are reserved
  int32_t max_tokens = 2048;     // of a step
  int32_t prompt_tokens = 256;   // of histories that are read in one go, so nobody waits for long
  int32_t most = 5;              // ids proposed for one sequence at once
  std::vector<TokenId> eos_ids;  // of the model that verifies
};

// Foretells with a small model, the draft: it draws as the sequence will be drawn, with the same
// options and the same coin, so what it gives is right wherever both models would draw the same.
//
// The draft has a KV pool of its own. It reads the history of a sequence in pieces, one whenever
// proposals are asked for, and as soon as a sequence is `ahead`; proposals are made once it knows
// all of it. All sequences are computed together, in as many steps as the longest proposal has ids.
// What was rejected is forgotten at the next call, and its blocks are given back.
//
// A sequence gets the blocks of its whole history or none, and none that others need for their next
// tokens. When it cannot grow it gives its blocks up and begins anew when there is room. Until then
// nothing is proposed for it. A step that fails ends all foretelling, and nothing else.
class DraftProposer final : public ProposalSource {
 public:
  // The arena of `kv` outlives this.
  DraftProposer(DraftOptions options, const kernels::PagedKv& kv,
                std::unique_ptr<ModelRunner> runner);

  void Begin(SequenceId id, const SequenceSpec& spec) override;
  bool prepares() const override { return true; }
  bool Prepare(std::span<const ProposalRequest> asked) override;
  std::span<const TokenId> Propose(const ProposalRequest& asked) override;
  void Forget(SequenceId id) override { live_.erase(id); }
  DraftFigures figures() const override;
  uint64_t operations_finished() const override { return runner_->operations_finished(); }

  const BlockPool& pool() const { return pool_; }

 private:
  struct Live {
    Live(const SequenceSpec& spec, const DraftOptions& options);

    const SamplingParams sampling;
    const StopCriteria stop;
    const int32_t prompt_tokens;
    NgramIndex ngrams;
    ProposalPace pace;
    BlockTable table;
    std::vector<TokenId> text;  // the history as it was seen last, and what is foretold behind it
    int32_t known = 0;          // tokens of the history in `text`
    int32_t computed = 0;       // tokens of `text` whose KV stands in the blocks
    int32_t wanted = 0;         // ids that are being foretold
    int32_t end = -1;           // length of `text` behind which the draft saw the answer's end
    uint64_t seen = 0;          // in which call it was there last

    int32_t length() const { return static_cast<int32_t>(text.size()); }
    int32_t pending() const { return length() - computed; }
    int32_t foretold() const { return length() - known; }
  };
  // A row of the step that is being made.
  struct Row {
    Live* live;
    int32_t tokens;
    bool draws;
  };

  void Follow(Live* live, std::span<const TokenId> history) const;
  static int32_t Wanted(Live* live, const ProposalRequest& asked);
  // Whether one step of the draft is enough to read what it has not read yet.
  bool ReadsSoon(const Live& live) const;
  void Drop(Live* live);
  bool HasRoom(Live* live);
  void AddRows(std::span<const ProposalRequest> asked);
  bool AddRow(Live* live, int32_t tokens);
  // Computes `rows_`, and keeps those of them whose sequences want another id. False when the draft
  // failed.
  bool Step();
  void FillRow(const Row& row, StepPlan* plan);
  kernels::SampleRow DrawOf(Live* live, int32_t slot) const;

  const DraftOptions options_;
  const int32_t block_size_;
  const std::unique_ptr<ModelRunner> runner_;
  BlockPool pool_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<Live>> live_;  // tables go before the pool
  std::vector<Row> rows_;
  int32_t tokens_left_ = 0;  // of the step that is being made
  uint64_t calls_ = 0;
  bool failed_ = false;
  DraftFigures figures_;
};

}  // namespace baton
