#include "common/model/transformer_runner.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace baton {
namespace {

// A mask that allows one id, kept among `masks`.
std::span<const uint32_t> MaskOf(TokenId id, std::deque<std::vector<uint32_t>>* masks) {
  constexpr size_t kBits = 32;
  const auto bit = static_cast<size_t>(id);
  std::vector<uint32_t>& words = masks->emplace_back(bit / kBits + 1);
  words.back() = uint32_t{1} << (bit % kBits);
  return words;
}

}  // namespace

TransformerRunner::TransformerRunner(std::unique_ptr<Transformer> transformer,
                                     const kernels::PagedKv& kv, const kernels::PagedKv& host)
    : transformer_(std::move(transformer)),
      kv_(kv),
      host_(host),
      device_feeds_(transformer_->backend().info().keeps_last_tokens) {}

void TransformerRunner::AddRow(const StepRow& row) {
  const int32_t count = row.num_tokens();
  const size_t first_block = blocks_.size();
  for (const BlockId block : row.blocks) blocks_.push_back(block.value());
  sequences_.push_back({.token_begin = static_cast<int32_t>(tokens_.size()),
                        .num_tokens = count,
                        .context = row.first_position + count,
                        .blocks = std::span(blocks_).subspan(first_block, row.blocks.size())});
  if (row.feeds_sampled) {
    tokens_.push_back(device_feeds_ ? kernels::LastTokenOf(row.slot) : LastDrawn(row.slot));
  } else {
    tokens_.insert(tokens_.end(), row.tokens.begin(), row.tokens.end());
  }
  for (int32_t i = 0; i < count; ++i) positions_.push_back(row.first_position + i);
  AddScores(row, static_cast<int32_t>(tokens_.size()) - count);
  AddDraws(row);
}

void TransformerRunner::AddDraws(const StepRow& row) {
  const size_t first_draw = tokens_.size() - row.draws.size();
  for (size_t i = 0; i < row.draws.size(); ++i) {
    const size_t place = draws_++;
    const bool is_forced = i < row.forced.size();
    if (is_forced && row.bare_forced) {
      bare_.emplace_back(place, row.forced[i]);
      continue;
    }
    sample_rows_.push_back(static_cast<int32_t>(first_draw + i));
    sampling_.push_back(row.draws[i]);
    guides_.push_back(is_forced ? nullptr : row.guide);
    is_score_.push_back(false);
    if (is_forced) sampling_.back().allowed = MaskOf(row.forced[i], &forced_masks_);
    if (sampling_.back().pending_output && !device_feeds_) {
      sampling_.back().pending_id = LastDrawn(row.slot);
    }
  }
}

// A score is what drawing that very token would say of it. The bias, which no logprob tells of,
// leaves a greedy draw no other choice.
void TransformerRunner::AddScores(const StepRow& row, int32_t begin) {
  constexpr float kCertain = 1e30F;
  for (size_t i = 0; i < row.scored.size(); ++i) {
    sample_rows_.push_back(begin + row.first_scored + static_cast<int32_t>(i));
    score_bias_.emplace_back(row.scored[i], kCertain);
    sampling_.push_back(
        {.logit_bias = std::span(score_bias_).last(1), .num_top_logprobs = row.score_alternatives});
    guides_.push_back(nullptr);
    is_score_.push_back(true);
  }
}

void TransformerRunner::Flatten(const StepPlan& plan) {
  tokens_.clear();
  positions_.clear();
  blocks_.clear();
  sequences_.clear();
  sample_rows_.clear();
  sampling_.clear();
  is_score_.clear();
  score_bias_.clear();
  guides_.clear();
  forced_masks_.clear();
  bare_.clear();
  draws_ = 0;
  // The sequences keep spans into blocks_, which therefore must not grow while it is filled.
  score_bias_.reserve(static_cast<size_t>(plan.num_scores));  // rows keep spans into it, too
  size_t num_blocks = 0;
  for (const StepRow& row : plan.rows) num_blocks += row.blocks.size();
  blocks_.reserve(num_blocks);
  for (const StepRow& row : plan.rows) AddRow(row);
}

int32_t TransformerRunner::LastDrawn(int32_t slot) const {
  BATON_CHECK(slot >= 0 && static_cast<size_t>(slot) < last_drawn_.size())
      << "nothing was drawn for slot " << slot;
  return last_drawn_[static_cast<size_t>(slot)];
}

void TransformerRunner::KeepLastDrawn(const InFlight& step) {
  for (size_t i = 0; i < step.slots.size(); ++i) {
    if (step.slots[i] < 0) continue;
    const auto slot = static_cast<size_t>(step.slots[i]);
    if (slot >= last_drawn_.size()) last_drawn_.resize(slot + 1, -1);
    last_drawn_[slot] = step.samples[i].token;
  }
}

void TransformerRunner::GiveProducts(InFlight& step) const {
  if (step.products.empty()) return;
  const auto dims = static_cast<size_t>(transformer_->probe_dims());
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const auto from = step.products.begin() + static_cast<ptrdiff_t>(i * dims);
    step.samples[i].probe.assign(from, from + static_cast<ptrdiff_t>(dims));
  }
}

StepOutput TransformerRunner::OutputOf(InFlight step) {
  StepOutput output;
  auto bare = step.bare.begin();
  const auto add_bare = [&] {
    for (; bare != step.bare.end() && bare->first == output.samples.size(); ++bare) {
      output.samples.push_back(BareToken(bare->second));
    }
  };
  for (size_t i = 0; i < step.samples.size(); ++i) {
    SampledToken& sample = step.samples[i];
    if (step.is_score[i]) {
      output.scores.push_back({sample.logprob, std::move(sample.top_logprobs), sample.valid});
    } else {
      add_bare();
      output.samples.push_back(std::move(sample));
    }
  }
  add_bare();
  return output;
}

absl::Status TransformerRunner::CopyBlocks(const StepPlan& plan) {
  kernels::Backend& backend = transformer_->backend();
  if (!plan.swaps_out.empty()) {
    BATON_RETURN_IF_ERROR(backend.CopyBlocks(kv_, host_, plan.swaps_out));
  }
  if (!plan.swaps_in.empty()) {
    BATON_RETURN_IF_ERROR(backend.CopyBlocks(host_, kv_, plan.swaps_in));
  }
  if (plan.copies.empty()) return absl::OkStatus();
  return backend.CopyBlocks(kv_, kv_, plan.copies);
}

absl::Status TransformerRunner::Submit(const StepPlan& plan) {
  BATON_CHECK(static_cast<int32_t>(in_flight_.size()) < max_in_flight())
      << "step " << plan.step << " submitted before Wait of the one " << max_in_flight()
      << " before it";
  BATON_CHECK(!plan.empty()) << "step " << plan.step;
  Flatten(plan);
  BATON_RETURN_IF_ERROR(CopyBlocks(plan));
  const kernels::StepLayout layout = {.tokens = tokens_,
                                      .positions = positions_,
                                      .sequences = sequences_,
                                      .sample_rows = sample_rows_};
  BATON_ASSIGN_OR_RETURN(const kernels::Matrix logits, transformer_->Forward(layout, kv_));
  InFlight& step = in_flight_.emplace_back();
  step.samples.resize(sampling_.size());
  step.is_score = is_score_;
  step.bare = bare_;
  for (const kernels::SampleRow& row : sampling_) {
    step.slots.push_back(row.one_of_several ? -1 : row.slot);
  }
  if (!sampling_.empty()) {
    if (transformer_->probe_dims() > 0) {
      step.products.resize(sampling_.size() * static_cast<size_t>(transformer_->probe_dims()));
      transformer_->backend().Fetch(transformer_->ProbeProducts(logits.rows), step.products);
    }
    // Only now are the masks of guides waited for: they were worked out beside the forward pass.
    for (size_t i = 0; i < sampling_.size(); ++i) {
      if (guides_[i] == nullptr) continue;
      sampling_[i].allowed = guides_[i]->Mask();
      transformer_->CountOperation();  // dear ones may add up, each of which is bounded
    }
    transformer_->backend().Sample(logits, sampling_, step.samples);
    transformer_->CountOperation();
  }
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> TransformerRunner::Wait() {
  BATON_CHECK(!in_flight_.empty()) << "Wait without Submit";
  // EndStep writes results into the step. Elements of a deque stay where they are while others come
  // and go.
  const absl::Status ended = transformer_->backend().EndStep();
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  BATON_RETURN_IF_ERROR(ended);
  GiveProducts(step);
  if (!device_feeds_) KeepLastDrawn(step);  // only now are they on the host, whatever the backend
  return OutputOf(std::move(step));
}

}  // namespace baton
