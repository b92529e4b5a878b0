#include "router/request/accepted_output.h"

#include <algorithm>
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
  const TokenId id = token.token.token;
  const bool stops_active = size() >= spec_.stop.min_tokens;
  ids_.push_back(id);
  if (token.token.natural_end) SeeNaturalEnd(size());
  // An id that ends the request is delivered as an id, not as text.
  TextPiece piece;
  if (!EndsByToken(id)) piece = text_.Append(id, stops_active);
  std::optional<OutputEnd> end = EndOf(id, piece);
  return {std::move(piece.text), std::move(end)};
}

bool AcceptedOutput::EndsByToken(TokenId id) const {
  if (spec_.stop.eos_policy != EosPolicy::kHonor) return false;
  const auto& stops = spec_.stop.stop_token_ids;
  return model_.IsEos(id) || std::find(stops.begin(), stops.end(), id) != stops.end();
}

std::optional<OutputEnd> AcceptedOutput::EndOf(TokenId id, const TextPiece& piece) const {
  if (EndsByToken(id)) {
    const FinishReason reason =
        model_.IsEos(id) ? FinishReason::kStopEos : FinishReason::kStopToken;
    return OutputEnd{.reason = reason, .stop_token = id};
  }
  if (piece.stop) {
    return OutputEnd{.reason = FinishReason::kStopString, .stop_string = piece.stop};
  }
  if (spec_.stop.max_tokens > 0 && size() >= spec_.stop.max_tokens) {
    return OutputEnd{.reason = FinishReason::kLength};
  }
  return std::nullopt;
}

std::string AcceptedOutput::FinishText() { return text_.stopped() ? "" : text_.Finish(); }

void AcceptedOutput::SeeNaturalEnd(std::optional<int32_t> step) {
  if (!natural_end_step_) natural_end_step_ = step;
}

}  // namespace baton
