#include "common/engine/foresight.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <variant>

namespace baton {

std::optional<EndEstimate> Foresight::Begin(SequenceId id, const SequenceSpec& spec) const {
  if (predictor_ == nullptr || spec.natural_end_step || spec.beams.on()) return std::nullopt;
  const PredictRequest request = {.prompt_tokens = static_cast<int32_t>(spec.prompt.size()),
                                  .temperature = spec.sampling.temperature,
                                  .top_p = spec.sampling.top_p,
                                  .length_class = spec.length_class,
                                  .min_tokens = spec.stop.min_tokens};
  // One token says nothing of how long answers become: it is a word that was asked for, or drawn
  // for nobody behind a prompt that was to be scored.
  const bool learns = spec.kind != SequenceKind::kPrefill && spec.stop.max_tokens != 1;
  return predictor_->Begin(id, request, spec.generated, learns);
}

void Foresight::TakeFirst(SequenceId id, SampledToken* first) const {
  first->end.reset();  // the prefill worker's
  if (predictor_ != nullptr) first->end = predictor_->TakeFirst(id, *first);
}

void Foresight::Take(const StepPlan& plan, StepOutput* output) const {
  if (predictor_ == nullptr) return;
  std::span<SampledToken> rest = output->samples;
  for (const StepRow& row : plan.rows) {
    const std::span<SampledToken> drawn = rest.first(row.draws.size());
    rest = rest.subspan(row.draws.size());
    if (drawn.empty() || row.beam >= 0) continue;  // ends of beams are not foreseen
    const int32_t counting = CountingDraws(row, drawn);
    for (int32_t i = 0; i < counting; ++i) {
      const kernels::SampleRow& draw = row.draws[static_cast<size_t>(i)];
      SampledToken& token = drawn[static_cast<size_t>(i)];
      if (!token.valid) break;
      token.end = predictor_->Take(row.sequence, SampleStep(draw), token);
      // Nothing is foreseen behind the end that the model wanted.
      if (token.natural_end || std::ranges::binary_search(draw.eos_ids, token.token)) break;
    }
  }
}

void Foresight::Tell(SchedEvent* event) const {
  if (predictor_ == nullptr) return;
  if (const auto* token = std::get_if<TokenEvent>(&event->what)) {
    if (token->token.natural_end) predictor_->NaturalEnd(event->sequence);
  } else if (auto* finished = std::get_if<FinishedEvent>(&event->what)) {
    finished->end_scores =
        predictor_->End(event->sequence, {.reason = finished->reason,
                                          .natural_end_step = finished->natural_end_step,
                                          .generated_tokens = finished->generated_tokens,
                                          .max_tokens = finished->max_tokens});
  } else if (std::holds_alternative<RefusedEvent>(event->what) ||
             std::holds_alternative<RevokedEvent>(event->what)) {
    predictor_->Drop(event->sequence);
  }
}

}  // namespace baton
