#include "router/request/accepted_output.h"

#include <utility>

namespace baton {

AcceptedOutput::AcceptedOutput(const RequestSpec& spec, const ServedModel& model)
    : spec_(spec),
      model_(model),
      text_(*model.tokenizer, {.stop_strings = spec.stop_strings,
                               .include_stop = spec.include_stop,
                               .skip_special_tokens = spec.skip_special_tokens}) {}

AcceptedOutput::Verdict AcceptedOutput::Judge(const PlacedToken& token) const {
  if (token.index == size()) return Verdict::kNext;
  if (token.index < 0 || token.index > size()) return Verdict::kGap;
  const bool same = ids_[static_cast<size_t>(token.index)] == token.token.token;
  return same ? Verdict::kKnown : Verdict::kDiffers;
}

AcceptedOutput::Addition AcceptedOutput::Accept(const PlacedToken& token) {
  if (!stop_) stop_.emplace(spec_.stop, model_.eos_ids(), spec_.stop.max_tokens, std::nullopt);
  SampledToken taken = token.token;
  const bool stops_active = size() >= spec_.stop.min_tokens;
  ids_.push_back(taken.token);
  const StopCriteria::Decision decision = stop_->Take(size(), &taken);
  if (taken.natural_end) SeeNaturalEnd(size());
  if (taken.end_chance) end_chance_step_ = size();
  // An id that ends the request is delivered as an id, not as text.
  if (decision.stop_token) {
    return {.text = "", .end = OutputEnd{.reason = decision.reason, .stop_token = taken.token}};
  }
  TextPiece piece = text_.Append(taken.token, stops_active);
  std::optional<OutputEnd> end;
  if (piece.stop) {
    end = {.reason = FinishReason::kStopString, .stop_string = piece.stop};
  } else if (decision.reason != FinishReason::kNone) {
    end = {.reason = decision.reason};
  } else if (taken.runaway_end) {
    end = {.reason = FinishReason::kRunaway};
  }
  return {std::move(piece.text), std::move(end)};
}

std::string AcceptedOutput::FinishText() { return text_.stopped() ? "" : text_.Finish(); }

void AcceptedOutput::SeeNaturalEnd(std::optional<int32_t> step) {
  if (!natural_end_step_) natural_end_step_ = step;
}

}  // namespace baton
