#include "router/edge/byte_budget.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/edge/queue_full.h"

namespace baton {
namespace {

absl::Status NeverLeft(size_t bytes, size_t most, size_t limit) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.reason = Reason::kLimitExceeded,
                    .values = {{"have", absl::StrCat(bytes)}, {"limit", absl::StrCat(most)}}},
                   absl::StrCat("the request has ", bytes, " bytes, and one client may hold ", most,
                                " of --max-inflight-bytes ", limit, "; send a smaller one"));
}

absl::Status NotLeft(size_t would, size_t most, size_t limit) {
  return QueueFull(
      would, most,
      absl::StrCat("this client's requests in flight would hold ", would, " bytes and may hold ",
                   most, " now, three times what is left of --max-inflight-bytes ", limit,
                   "; try again later"));
}

absl::Status NoRoomForAnswers(size_t would, size_t most, size_t limit) {
  return QueueFull(
      would, most,
      absl::StrCat("with what is gathered for the answer this client's requests in flight "
                   "would hold ",
                   would, " bytes, and answers may grow up to ", most,
                   " now, by what is left of --max-inflight-bytes ", limit,
                   "; try again later, stream it without best_of, or ask for fewer "
                   "answers, tokens or logprobs"));
}

}  // namespace

size_t ByteBudget::HeldBy(const std::string& client) const {
  const auto held = clients_.find(client);
  return held == clients_.end() ? 0 : held->second;
}

size_t ByteBudget::MostOf(const std::string& client) const {
  const size_t others = used_ - HeldBy(client);
  return others < limit_ ? MostOfOne(limit_ - others) : 0;
}

void ByteBudget::Change(const std::string& client, size_t before, size_t bytes) {
  used_ = used_ - before + bytes;
  const auto held = clients_.try_emplace(client, 0).first;
  held->second = held->second - before + bytes;
  if (held->second == 0) clients_.erase(held);
}

absl::StatusOr<ByteBudget::Share> ByteBudget::Take(const std::string& client, size_t bytes) {
  Share share(this, client, 0);
  BATON_RETURN_IF_ERROR(share.Resize(bytes));
  return share;
}

absl::Status ByteBudget::Grow(const std::string& client, size_t bytes, Share* share) {
  base::MutexLock lock(&mutex_);
  const size_t would = HeldBy(client) + bytes - share->bytes_;
  const size_t most = MostOf(client) / 4 * 3;
  if (would > most) return NoRoomForAnswers(would, most, limit_);
  Change(client, share->bytes_, bytes);
  share->budget_ = this;
  share->client_ = client;
  share->bytes_ = bytes;
  return absl::OkStatus();
}

ByteBudget::Share ByteBudget::Add(const std::string& client, size_t bytes) {
  base::MutexLock lock(&mutex_);
  Change(client, 0, bytes);
  return Share(this, client, bytes);
}

size_t ByteBudget::used() const {
  base::MutexLock lock(&mutex_);
  return used_;
}

absl::Status ByteBudget::Share::Resize(size_t bytes) {
  if (budget_ == nullptr) return absl::OkStatus();
  const size_t limit = budget_->limit_;
  base::MutexLock lock(&budget_->mutex_);
  if (bytes > bytes_) {
    if (bytes > MostOfOne(limit)) return NeverLeft(bytes, MostOfOne(limit), limit);
    const size_t would = budget_->HeldBy(client_) + bytes - bytes_;
    const size_t most = budget_->MostOf(client_);
    if (would > most) return NotLeft(would, most, limit);
  }
  budget_->Change(client_, bytes_, bytes);
  bytes_ = bytes;
  return absl::OkStatus();
}

}  // namespace baton
