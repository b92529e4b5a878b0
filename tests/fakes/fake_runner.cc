#include "tests/fakes/fake_runner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/philox.h"

namespace baton {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t WordAt(TokenId token, int32_t position, int layer, int plane, int head) {
  const auto where = static_cast<uint64_t>((layer * 2 + plane) * 64 + head);
  return Mix(Mix(static_cast<uint64_t>(token) << 32 | static_cast<uint32_t>(position)) ^ where);
}

uint64_t Digest(std::span<const TokenId> ids) {
  uint64_t digest = 0;
  for (const TokenId id : ids) digest = Mix(digest ^ static_cast<uint32_t>(id));
  return digest;
}

bool Contains(std::span<const TokenId> ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// How many tokens stand before the one that draw `index` of a row gives.
int32_t EndOfDraw(const StepRow& row, int32_t index) {
  return row.first_position + row.num_tokens() - row.num_draws() + index + 1;
}

// One of the ids of a bitmap, as `coin` says; `token` if that is one of them.
TokenId AllowedToken(std::span<const uint32_t> allowed, TokenId token, uint64_t coin) {
  std::vector<TokenId> ids;
  for (size_t bit = 0; bit < allowed.size() * 32; ++bit) {
    if ((allowed[bit / 32] >> (bit % 32) & 1) != 0) ids.push_back(static_cast<TokenId>(bit));
  }
  return Contains(ids, token) || ids.empty() ? token : ids[coin % ids.size()];
}

// Visits (layer, plane, head) in the order of memory.
template <typename Visit>
void ForEachHead(const kernels::KvLayout& layout, Visit visit) {
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (int plane = 0; plane < 2; ++plane) {
      for (int head = 0; head < layout.kv_heads; ++head) visit(layer, plane, head);
    }
  }
}

std::byte* HeadAt(const kernels::PagedKv& kv, BlockId block, int layer, int plane, int head,
                  int position) {
  return kv.block(block.value()) + kv.offset(layer, plane, head, position);
}

EosSignal SignalOf(uint64_t hash, const kernels::SampleRow& row) {
  EosSignal signal;
  const auto unit = static_cast<float>(hash % 999 + 1) / 1000.0f;
  signal.eos_logprob = row.eos_ids.empty() ? NAN : std::log(unit);
  signal.eos_prob_sampling = row.mask_stop_ids ? 0 : unit;
  signal.eos_rank = row.eos_ids.empty() ? 0 : static_cast<int32_t>(hash % 50) + 1;
  signal.entropy = unit * 3;
  signal.top1_prob = 1 - unit;
  return signal;
}

}  // namespace

FakeArena::FakeArena(int32_t num_blocks, int block_size) {
  kv_.layout = {.dtype = kernels::DType::kF32,
                .block_size = block_size,
                .layers = 2,
                .kv_heads = 1,
                .head_dim = 2};
  kv_.num_blocks = num_blocks;
  memory_.resize(kv_.layout.block_bytes() * static_cast<size_t>(num_blocks));
  kv_.arena = memory_.data();
}

SampledToken FakeDraw(const FakeModelOptions& model, uint64_t history_hash,
                      const kernels::SampleRow& row) {
  const auto position = static_cast<uint32_t>(row.prompt.size() + row.output.size());
  uint64_t hash = Mix(history_hash ^ position);
  if (row.repetition_penalty != 1) hash = Mix(hash ^ Digest(row.prompt) ^ Digest(row.output));
  if (row.presence_penalty != 0 || row.frequency_penalty != 0) {
    hash = Mix(hash ^ Digest(row.output));
  }
  if (row.eos_bias != 0) hash = Mix(hash ^ std::bit_cast<uint32_t>(row.eos_bias));
  const auto draw = [&](uint32_t number, uint64_t retry) {
    uint64_t coin = Mix(hash + retry);
    if (row.temperature > 0) {
      coin = Mix(coin ^ static_cast<uint64_t>(0x1p53 * base::Coin(row.seed, position, number)));
    }
    const bool eos = static_cast<int32_t>(coin % 1000) < model.eos_permille;
    if (eos && !row.eos_ids.empty()) return row.eos_ids[0];
    return static_cast<TokenId>((coin >> 12) % static_cast<uint64_t>(model.vocab_size));
  };
  const auto forced = model.force ? model.force(row) : std::nullopt;
  const TokenId undisturbed = forced.value_or(draw(0, 0));
  SampledToken token{.token = undisturbed, .logprob = -static_cast<float>(hash % 97) / 10};
  token.natural_end = row.redraw_eos && !row.mask_stop_ids && Contains(row.eos_ids, undisturbed);
  const std::span<const TokenId> barred = row.mask_stop_ids ? row.stop_ids
                                          : row.redraw_eos  ? row.eos_ids
                                                            : std::span<const TokenId>();
  for (uint64_t retry = 1; Contains(barred, token.token); ++retry) {
    token.token = draw(row.mask_stop_ids ? 0 : 1, retry);
  }
  token.token = AllowedToken(row.allowed, token.token, Mix(hash));
  for (int32_t i = 0; i < row.num_top_logprobs; ++i) {
    token.top_logprobs.push_back({.token = i, .logprob = -static_cast<float>(i) - 1});
  }
  token.eos = SignalOf(hash, row);
  if (model.eos_prob) token.eos.eos_logprob = std::log(model.eos_prob(row));
  for (int32_t i = 0; i < model.probe_dims; ++i) {
    token.probe.push_back(static_cast<float>(Mix(hash + static_cast<uint64_t>(i)) % 1000) / 8);
  }
  return token;
}

std::vector<TokenLogprob> FakeCandidates(const FakeModelOptions& model, uint64_t history_hash,
                                         int32_t count) {
  std::vector<TokenLogprob> candidates;
  float logprob = 0;
  for (uint64_t i = 0; candidates.size() < static_cast<size_t>(count); ++i) {
    const uint64_t coin = Mix(history_hash + i);
    const bool eos = static_cast<int32_t>(coin % 1000) < model.eos_permille;
    const auto token =
        eos ? model.candidate_eos
            : static_cast<TokenId>((coin >> 12) % static_cast<uint64_t>(model.vocab_size));
    const auto same = [&](const TokenLogprob& other) { return other.token == token; };
    if (std::ranges::any_of(candidates, same)) continue;
    logprob -= static_cast<float>(coin >> 40 & 0xff) / 128 + 0.01F;
    candidates.push_back({.token = token, .logprob = logprob});
  }
  return candidates;
}

TokenScore FakeScore(uint64_t history_hash, TokenId token, int32_t alternatives) {
  const uint64_t hash = Mix(history_hash ^ static_cast<uint32_t>(token));
  TokenScore score{.logprob = -static_cast<float>(hash % 997) / 10, .top_logprobs = {}};
  for (int32_t i = 0; i < alternatives; ++i) {
    score.top_logprobs.push_back({.token = i, .logprob = -static_cast<float>(i) - 1});
  }
  return score;
}

uint64_t FakeHistoryHash(const kernels::KvLayout& layout, std::span<const TokenId> tokens) {
  uint64_t hash = 0;
  for (size_t position = 0; position < tokens.size(); ++position) {
    ForEachHead(layout, [&](int layer, int plane, int head) {
      hash =
          Mix(hash ^ WordAt(tokens[position], static_cast<int32_t>(position), layer, plane, head));
    });
  }
  return hash;
}

void FakeRunnerControl::Pause() {
  base::MutexLock lock(&mutex_);
  paused_ = true;
}

void FakeRunnerControl::Resume() {
  base::MutexLock lock(&mutex_);
  paused_ = false;
  changed_.NotifyAll();
}

void FakeRunnerControl::set_on_step(std::function<void(const StepPlan&)> on_step) {
  base::MutexLock lock(&mutex_);
  on_step_ = std::move(on_step);
}

FakeRunner::FakeRunner(const kernels::PagedKv& kv, FakeModelOptions model,
                       std::shared_ptr<FakeRunnerControl> control, const kernels::PagedKv& host)
    : kv_(kv),
      host_(host),
      model_(std::move(model)),
      control_(control ? std::move(control) : std::make_shared<FakeRunnerControl>()) {
  BATON_CHECK(static_cast<size_t>(kv.layout.head_dim) * kernels::SizeOf(kv.layout.dtype) >=
              sizeof(uint64_t))
      << "a head of the fake model holds 8 bytes of a token";
}

absl::Status FakeRunner::Submit(const StepPlan& plan) {
  BATON_CHECK(steps_.size() < static_cast<size_t>(model_.max_in_flight)) << "step " << plan.step;
  CheckPlan(plan);
  {
    base::MutexLock lock(&control_->mutex_);
    if (control_->on_step_) control_->on_step_(plan);
  }
  steps_.push_back({&plan, std::nullopt});
  if (!model_.lazy) steps_.back().output = Compute(plan);
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> FakeRunner::Wait() {
  BATON_CHECK(!steps_.empty()) << "Wait without Submit";
  {
    base::MutexLock lock(&control_->mutex_);
    while (control_->paused_) control_->changed_.Wait(&control_->mutex_);
  }
  Step step = std::move(steps_.front());
  steps_.pop_front();
  broken_ |= control_->fail_next_.exchange(false);
  if (broken_) return absl::InternalError("injected device fault");
  if (!step.output) step.output = Compute(*step.plan);
  ++control_->steps_;
  ++operations_;
  return *std::move(step.output);
}

void FakeRunner::CopyBlocks(const StepPlan& plan) const {
  const size_t bytes = kv_.layout.block_bytes();
  for (const auto& [from, to] : plan.swaps_out) {
    BATON_CHECK(to < host_.num_blocks) << "a copy to block " << to << " of the host";
    std::memcpy(host_.block(to), kv_.block(from), bytes);
  }
  for (const auto& [from, to] : plan.swaps_in) {
    BATON_CHECK(from < host_.num_blocks) << "a copy from block " << from << " of the host";
    std::memcpy(kv_.block(to), host_.block(from), bytes);
  }
  for (const auto& [from, to] : plan.copies) {
    std::memcpy(kv_.block(to), kv_.block(from), bytes);
  }
}

StepOutput FakeRunner::Compute(const StepPlan& plan) {
  CopyBlocks(plan);
  for (const StepRow& row : plan.rows) Store(row);
  StepOutput output;
  for (const StepRow& row : plan.rows) {
    for (size_t i = 0; i < row.scored.size(); ++i) output.scores.push_back(Score(row, i));
    for (int32_t i = 0; i < row.num_draws(); ++i) output.samples.push_back(Draw(row, i));
  }
  return output;
}

SampledToken FakeRunner::Draw(const StepRow& row, int32_t index) {
  kernels::SampleRow sampling = row.draws[static_cast<size_t>(index)];
  if (row.beam >= 0) {
    if (model_.spoils && model_.spoils(sampling)) return {.valid = false};
    const uint64_t history = ReadHistory(row, EndOfDraw(row, index));
    SampledToken token{.top_logprobs = FakeCandidates(model_, history, sampling.num_top_logprobs)};
    token.token = token.top_logprobs.front().token;
    token.logprob = token.top_logprobs.front().logprob;
    return token;
  }
  std::vector<TokenId> output(sampling.output.begin(), sampling.output.end());
  if (sampling.pending_output) output.push_back(LastDrawn(row));
  output.insert(output.end(), sampling.given.begin(), sampling.given.end());
  sampling.pending_output = false;
  sampling.given = {};
  sampling.output = output;
  std::vector<uint32_t> only;
  if (static_cast<size_t>(index) < row.forced.size()) {
    const auto id = static_cast<size_t>(row.forced[static_cast<size_t>(index)]);
    if (row.bare_forced) return BareToken(static_cast<TokenId>(id));
    only.resize(id / 32 + 1);
    only.back() = uint32_t{1} << (id % 32);
    sampling.allowed = only;
  } else if (row.guide != nullptr) {
    sampling.allowed = row.guide->Mask();
  }
  SampledToken token = FakeDraw(model_, ReadHistory(row, EndOfDraw(row, index)), sampling);
  if (model_.spoils && model_.spoils(sampling)) token = {.valid = false};
  if (sampling.one_of_several) {
    last_.erase(row.slot);
  } else {
    last_[row.slot] = {row.sequence, token.token};
  }
  return token;
}

TokenScore FakeRunner::Score(const StepRow& row, size_t i) const {
  const int32_t behind = row.first_position + row.first_scored + static_cast<int32_t>(i) + 1;
  return FakeScore(ReadHistory(row, behind), row.scored[i], row.score_alternatives);
}

TokenId FakeRunner::LastDrawn(const StepRow& row) const {
  const auto found = last_.find(row.slot);
  BATON_CHECK(found != last_.end() && found->second.sequence == row.sequence)
      << "slot " << row.slot << " does not hold a token of sequence " << row.sequence.value();
  return found->second.token;
}

void FakeRunner::CheckPlan(const StepPlan& plan) const {
  std::set<BlockId> written;
  std::set<int32_t> slots;
  int32_t tokens = 0, samples = 0, scores = 0;
  for (const StepRow& row : plan.rows) {
    CheckRow(row);
    const bool has_slot = row.beam < 0 || row.slot >= 0;
    BATON_CHECK(!has_slot || (row.slot >= 0 && slots.insert(row.slot).second))
        << "slot " << row.slot;
    const int32_t end = row.first_position + row.num_tokens();
    for (int32_t i = row.first_position / kv_.layout.block_size;
         i <= (end - 1) / kv_.layout.block_size; ++i) {
      BATON_CHECK(written.insert(row.blocks[static_cast<size_t>(i)]).second)
          << "two rows write block " << row.blocks[static_cast<size_t>(i)].value();
    }
    tokens += row.num_tokens();
    samples += row.num_draws();
    scores += static_cast<int32_t>(row.scored.size());
  }
  BATON_CHECK(tokens == plan.num_tokens && samples == plan.num_samples && scores == plan.num_scores)
      << "step " << plan.step;
}

void FakeRunner::CheckRow(const StepRow& row) const {
  const int32_t end = row.first_position + row.num_tokens();
  BATON_CHECK(row.num_tokens() > 0 && row.first_position >= 0) << row.sequence.value();
  BATON_CHECK(!row.feeds_sampled || row.tokens.empty()) << row.sequence.value();
  BATON_CHECK(static_cast<int32_t>(row.blocks.size()) * kv_.layout.block_size >= end)
      << row.blocks.size() << " blocks for " << end << " tokens";
  for (const BlockId block : row.blocks) {
    BATON_CHECK(block.value() >= 0 && block.value() < kv_.num_blocks) << block.value();
  }
  BATON_CHECK(row.first_scored >= 0 &&
              row.first_scored + static_cast<int32_t>(row.scored.size()) <= row.num_tokens())
      << row.sequence.value();
  BATON_CHECK(row.num_draws() <= row.num_tokens()) << row.sequence.value();
  BATON_CHECK(row.forced.size() <= row.draws.size() &&
              (row.guide == nullptr || row.forced.size() + 1 == row.draws.size()))
      << row.forced.size() << " forced ids for " << row.num_draws() << " draws";
  for (size_t i = 0; i < row.forced.size() && i + 1 < row.draws.size(); ++i) {
    BATON_CHECK(row.forced[i] == row.tokens[row.tokens.size() - row.draws.size() + i + 1])
        << "forced id " << i << " is not what the row feeds";
  }
  if (row.beam >= 0) {
    BATON_CHECK(row.num_draws() <= 1 && row.draws.size() == 1 &&
                row.draws[0].num_top_logprobs > 0 && row.draws[0].slot < 0)
        << "beam " << row.beam << " of " << row.sequence.value();
    return;
  }
  for (int32_t i = 0; i < row.num_draws(); ++i) {
    const kernels::SampleRow& draw = row.draws[static_cast<size_t>(i)];
    const uint32_t history = SamplePosition(draw);
    BATON_CHECK(history == static_cast<uint32_t>(EndOfDraw(row, i)))
        << history << " tokens, draw " << i << " of a row that ends at " << end;
    BATON_CHECK(draw.slot == row.slot && draw.pending_output == row.feeds_sampled &&
                draw.one_of_several == (row.num_draws() > 1))
        << row.sequence.value();
    BATON_CHECK(std::ranges::equal(draw.given,
                                   row.tokens.last(row.draws.size() - 1).first(draw.given.size())))
        << "draw " << i << " does not follow what the row feeds";
  }
}

void FakeRunner::Store(const StepRow& row) const {
  const int block_size = kv_.layout.block_size;
  for (int32_t i = 0; i < row.num_tokens(); ++i) {
    const TokenId token = row.feeds_sampled ? LastDrawn(row) : row.tokens[static_cast<size_t>(i)];
    const int32_t position = row.first_position + i;
    const BlockId block = row.blocks[static_cast<size_t>(position / block_size)];
    ForEachHead(kv_.layout, [&](int layer, int plane, int head) {
      const uint64_t word = WordAt(token, position, layer, plane, head);
      std::memcpy(HeadAt(kv_, block, layer, plane, head, position % block_size), &word,
                  sizeof(word));
    });
  }
}

uint64_t FakeRunner::ReadHistory(const StepRow& row, int32_t end) const {
  const int block_size = kv_.layout.block_size;
  uint64_t hash = 0;
  for (int32_t position = 0; position < end; ++position) {
    const BlockId block = row.blocks[static_cast<size_t>(position / block_size)];
    ForEachHead(kv_.layout, [&](int layer, int plane, int head) {
      uint64_t word = 0;
      std::memcpy(&word, HeadAt(kv_, block, layer, plane, head, position % block_size),
                  sizeof(word));
      hash = Mix(hash ^ word);
    });
  }
  return hash;
}

}  // namespace baton
