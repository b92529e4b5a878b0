#include "router/edge/byte_budget.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

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
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kQueueFull,
       .values = {{"have", absl::StrCat(would)}, {"limit", absl::StrCat(most)}},
       .retry_after = std::chrono::milliseconds(1000)},
      absl::StrCat("this client's requests in flight would hold ", would, " bytes and may hold ",
                   most, " now, three times what is left of --max-inflight-bytes ", limit,
                   "; try again later"));
}

}  // namespace

size_t ByteBudget::MostBeside(size_t others, size_t limit) {
  return others < limit ? MostOfOne(limit - others) : 0;
}

size_t ByteBudget::HeldBy(const std::string& client) const {
  const auto held = clients_.find(client);
  return held == clients_.end() ? 0 : held->second;
}

void ByteBudget::Change(const std::string& client, size_t before, size_t bytes) {
  used_ = used_ - before + bytes;
  const auto held = clients_.try_emplace(client, 0).first;
  held->second = held->second - before + bytes;
  if (held->second == 0) clients_.erase(held);
}

absl::StatusOr<ByteBudget::Share> ByteBudget::Take(const std::string& client, size_t bytes) {
  if (bytes > MostOfOne(limit_)) return NeverLeft(bytes, MostOfOne(limit_), limit_);
  base::MutexLock lock(&mutex_);
  const size_t held = HeldBy(client);
  const size_t most = MostBeside(used_ - held, limit_);
  if (held + bytes > most) return NotLeft(held + bytes, most, limit_);
  Change(client, 0, bytes);
  return Share(this, client, bytes);
}

bool ByteBudget::Grow(const std::string& client, size_t bytes, size_t most, Share* share) {
  base::MutexLock lock(&mutex_);
  const size_t held = HeldBy(client);
  const size_t more = bytes - share->bytes_;
  if (held + more > MostBeside(used_ - held, most)) return false;
  Change(client, 0, more);
  share->budget_ = this;
  share->client_ = client;
  share->bytes_ = bytes;
  return true;
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

void ByteBudget::Share::Resize(size_t bytes) {
  if (budget_ == nullptr) return;
  base::MutexLock lock(&budget_->mutex_);
  budget_->Change(client_, bytes_, bytes);
  bytes_ = bytes;
}

}  // namespace baton
