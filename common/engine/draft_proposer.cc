#include "common/engine/draft_proposer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/max_proposals.h"
#include "spdlog/spdlog.h"

namespace baton {

DraftProposer::Live::Live(const SequenceSpec& spec, const DraftOptions& options)
    : sampling(spec.sampling),
      stop(spec.stop, options.eos_ids, std::max(1, spec.stop.max_tokens), std::nullopt),
      prompt_tokens(static_cast<int32_t>(spec.prompt.size())),
      ngrams(spec.sampling.no_repeat_ngram_size),
      pace(options.most) {}

DraftProposer::DraftProposer(DraftOptions options, const kernels::PagedKv& kv,
                             std::unique_ptr<ModelRunner> runner)
    : options_(std::move(options)),
      block_size_(kv.layout.block_size),
      runner_(std::move(runner)),
      pool_(kv.num_blocks) {
  BATON_CHECK(options_.max_rows >= 1 && options_.max_tokens >= 1 && options_.prompt_tokens >= 1)
      << "every budget must be at least 1";
  BATON_CHECK(options_.most >= 1 && options_.most <= kMaxProposals) << options_.most << " ids";
}

void DraftProposer::Begin(SequenceId id, const SequenceSpec& spec) {
  live_.emplace(id, std::make_unique<Live>(spec, options_));
}

DraftFigures DraftProposer::figures() const {
  DraftFigures figures = figures_;
  figures.blocks_total = pool_.total();
  figures.blocks_used = pool_.num_used();
  return figures;
}

// Ids stay in `text` until the history says what came in their place; what it agrees with need not
// be computed again.
void DraftProposer::Follow(Live* live, std::span<const TokenId> history) const {
  const auto length = static_cast<int32_t>(history.size());
  BATON_CHECK(length >= live->known) << length << " tokens after " << live->known;
  if (length == live->known) return;
  if (live->end == live->known) live->pace.Miss(live->known);  // the answer went on
  live->end = -1;
  const auto first = static_cast<ptrdiff_t>(live->known);
  const auto [agreed, rest] = std::mismatch(live->text.begin() + first, live->text.end(),
                                            history.begin() + first, history.end());
  live->computed = std::min(live->computed, static_cast<int32_t>(agreed - live->text.begin()));
  live->text.erase(agreed, live->text.end());
  live->text.insert(live->text.end(), rest, history.end());
  live->known = length;
  live->table.Truncate(BlocksFor(length, block_size_));
}

// The draft reads no history for a sequence whose proposals have been wrong, until these are due
// again.
int32_t DraftProposer::Wanted(Live* live, const ProposalRequest& asked) {
  const int32_t most = asked.most - (asked.drawing ? 1 : 0);
  if (most < 1) return 0;
  return std::min(most, live->pace.Next(std::ssize(asked.history), asked.fed, asked.accepted));
}

bool DraftProposer::ReadsSoon(const Live& live) const {
  return live.table.size() > 0 && live.pending() <= options_.prompt_tokens;
}

void DraftProposer::Drop(Live* live) {
  live->table.Clear();
  live->computed = 0;
  live->text.resize(static_cast<size_t>(live->known));
}

// Sees to the blocks of all tokens that are known. Proposals get blocks, and sequences their first
// ones, only while one more is free for each that has some.
bool DraftProposer::HasRoom(Live* live) {
  const auto growing = std::ranges::count_if(
      live_, [](const auto& entry) { return entry.second->table.size() > 0; });
  const int32_t needed = BlocksFor(live->length(), block_size_) - live->table.size();
  if (live->table.size() == 0) {
    if (pool_.available() < needed + growing) return false;
  } else if (pool_.available() < needed) {
    ++figures_.dropped;
    Drop(live);
    return false;
  }
  for (int32_t i = 0; i < needed; ++i) live->table.Append(pool_.Allocate());
  const auto room = [&] { return live->table.size() * block_size_ - live->length(); };
  // The last id is drawn and never fed.
  while (room() < live->wanted - 1 && pool_.available() > growing) {
    live->table.Append(pool_.Allocate());
  }
  live->wanted = std::min(live->wanted, room() + 1);
  return true;
}

bool DraftProposer::AddRow(Live* live, int32_t tokens) {
  if (tokens < 1 || std::ssize(rows_) >= options_.max_rows || !HasRoom(live)) return false;
  rows_.push_back(
      {.live = live, .tokens = tokens, .draws = live->wanted > 0 && tokens == live->pending()});
  tokens_left_ -= tokens;
  return true;
}

// First those that are about to be verified, then what is left to be read of longer histories.
void DraftProposer::AddRows(std::span<const ProposalRequest> asked) {
  constexpr int32_t kUsual = kMaxProposals + 1;
  rows_.clear();
  tokens_left_ = options_.max_tokens;
  std::vector<Live*> reads;
  for (const ProposalRequest& request : asked) {
    Live* const live = live_.at(request.sequence).get();
    // Nothing came yet of what it said.
    if (live->foretold() > 0 || live->end == live->known) continue;
    const int32_t wanted = Wanted(live, request);
    live->wanted = request.drawing ? 0 : wanted;
    // With two steps in flight a token is always being drawn, until the answer sits a step out.
    const bool far_behind = request.drawing && wanted > 0 && !ReadsSoon(*live);
    if (live->wanted == 0 && !request.ahead && !far_behind) continue;
    // Something is drawn behind the last token, so that is fed even if it was before.
    if (live->wanted > 0) live->computed = std::min(live->computed, live->length() - 1);
    const int32_t pending = live->pending();
    if (pending == 0) continue;
    const bool usual = live->wanted > 0 && pending <= kUsual && pending <= tokens_left_;
    if (!usual || !AddRow(live, pending)) reads.push_back(live);
  }
  int32_t prompt_tokens = options_.prompt_tokens;
  for (Live* const live : reads) {
    if (AddRow(live, std::min({live->pending(), prompt_tokens, tokens_left_}))) {
      prompt_tokens -= rows_.back().tokens;
    }
  }
}

bool DraftProposer::Prepare(std::span<const ProposalRequest> asked) {
  if (failed_) return false;
  ++calls_;
  for (const ProposalRequest& request : asked) {
    Live* const live = live_.at(request.sequence).get();
    live->seen = calls_;
    Follow(live, request.history);
  }
  for (auto& [id, live] : live_) {
    if (live->seen != calls_) Drop(live.get());  // it waits, for long perhaps, or it is over
  }
  AddRows(asked);
  if (rows_.empty()) return false;
  const auto begin = std::chrono::steady_clock::now();
  while (!rows_.empty() && Step()) {
  }
  figures_.seconds += base::Seconds(std::chrono::steady_clock::now() - begin);
  return true;
}

kernels::SampleRow DraftProposer::DrawOf(Live* live, int32_t slot) const {
  kernels::SampleRow draw =
      MakeSampleRow(live->sampling, live->stop, live->text, live->prompt_tokens);
  draw.slot = slot;
  draw.num_top_logprobs = 0;
  if (live->sampling.no_repeat_ngram_size > 0) {
    // What is foretold may turn out not to be.
    draw.banned_ids =
        live->ngrams.BannedAlong(live->text, static_cast<size_t>(live->foretold())).back();
  }
  return draw;
}

void DraftProposer::FillRow(const Row& from, StepPlan* plan) {
  Live* const live = from.live;
  StepRow& row = plan->rows.emplace_back();
  row.slot = static_cast<int32_t>(plan->rows.size()) - 1;
  row.tokens = std::span(live->text)
                   .subspan(static_cast<size_t>(live->computed), static_cast<size_t>(from.tokens));
  row.first_position = live->computed;
  row.blocks = live->table.ids().first(
      static_cast<size_t>(BlocksFor(live->computed + from.tokens, block_size_)));
  if (from.draws) row.draws.push_back(DrawOf(live, row.slot));
  plan->num_tokens += from.tokens;
  plan->num_samples += row.num_draws();
}

bool DraftProposer::Step() {
  StepPlan plan;
  plan.step = ++figures_.steps;
  plan.rows.reserve(rows_.size());
  for (const Row& row : rows_) FillRow(row, &plan);
  absl::Status status = runner_->Submit(plan);
  absl::StatusOr<StepOutput> output = status.ok() ? runner_->Wait() : std::move(status);
  if (!output.ok()) {
    spdlog::error("the draft model's step {} failed, so nothing is foretold from now on: {}",
                  plan.step, std::string(output.status().message()));
    failed_ = true;
    rows_.clear();
    for (auto& [id, live] : live_) Drop(live.get());
    return false;
  }
  figures_.tokens += static_cast<uint64_t>(plan.num_tokens);
  auto drawn = output->samples.begin();
  std::vector<Row> more;
  for (const Row& row : rows_) {
    Live* const live = row.live;
    live->computed += row.tokens;
    if (!row.draws) continue;
    const SampledToken& sample = *drawn++;
    const TokenId id = sample.token;
    // Nothing is drawn behind an end, so an id that is one would be of no use.
    if (!sample.valid || live->stop.EndsBy(id)) {
      live->end = live->length();
      continue;
    }
    live->text.push_back(id);
    if (live->foretold() < live->wanted) more.push_back({.live = live, .tokens = 1, .draws = true});
  }
  rows_ = std::move(more);
  return true;
}

std::span<const TokenId> DraftProposer::Propose(const ProposalRequest& asked) {
  if (failed_) return {};
  Live* const live = live_.at(asked.sequence).get();
  if (!asked.drawing) {
    return std::span<const TokenId>(live->text).subspan(static_cast<size_t>(live->known));
  }
  // What comes behind the token that is being drawn is foretold once it is known, which is soon if
  // the draft has read what stands before it.
  static constexpr TokenId kSome[2] = {};
  const bool sits_out = ReadsSoon(*live) && live->end != live->known && Wanted(live, asked) > 0;
  return sits_out ? std::span<const TokenId>(kSome) : std::span<const TokenId>();
}

}  // namespace baton
