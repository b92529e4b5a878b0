#include "router/edge/gathered_bytes.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kStepBytes = size_t{64} << 10;

// What the allocator and the list that an entry stands in take beside the entry.
constexpr size_t kBesideEntry = 32;

template <typename Entry>
size_t EntryBytes(const Entry& entry) {
  return entry.SpaceUsedLong() + kBesideEntry;
}

// Each alternative of a token is an entry, too.
size_t EntryBytes(const v1::TokenLogprobs& token) {
  return token.SpaceUsedLong() + kBesideEntry * static_cast<size_t>(1 + token.top_size());
}

template <typename Entries>
size_t AllBytes(const Entries& entries) {
  size_t bytes = 0;
  for (const auto& entry : entries) bytes += EntryBytes(entry);
  return bytes;
}

absl::Status TooMuchForOne(size_t bytes, size_t most) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kLimitExceeded,
       .values = {{"have", absl::StrCat(bytes)}, {"limit", absl::StrCat(most)}}},
      absl::StrCat("what is gathered for one answer would be ", bytes, " bytes, and at most ", most,
                   ", a quarter of --max-inflight-bytes, are; stream it without best_of, or ask "
                   "for fewer answers, tokens or logprobs"));
}

}  // namespace

absl::Status GatheredBytes::Add(size_t bytes) {
  const size_t now = bytes_ + bytes;
  if (now / kStepBytes > bytes_ / kStepBytes) {
    const size_t most = budget_->limit() / 4;
    if (now > most) return TooMuchForOne(now, most);
    BATON_RETURN_IF_ERROR(budget_->Grow(client_, now / kStepBytes * kStepBytes, &held_));
  }
  bytes_ = now;
  return absl::OkStatus();
}

void GatheredBytes::Clear() {
  bytes_ = 0;
  held_ = {};
}

ByteBudget::Share GatheredBytes::Become(size_t bytes) {
  ByteBudget::Share share = budget_->Add(client_, bytes);
  Clear();
  return share;
}

size_t BytesHeld(const v1::Delta& delta) {
  return delta.text().size() + static_cast<size_t>(delta.token_ids_size()) * sizeof(int32_t) +
         AllBytes(delta.logprobs()) + AllBytes(delta.eos_steps());
}

size_t BytesHeld(const v1::Prompt& prompt) {
  return prompt.text().size() + static_cast<size_t>(prompt.token_ids_size()) * sizeof(int32_t) +
         AllBytes(prompt.logprobs());
}

size_t BytesHeld(const v1::EndPrediction& prediction) { return EntryBytes(prediction); }

}  // namespace baton
