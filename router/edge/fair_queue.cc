#include "router/edge/fair_queue.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// A piece costs something even if it is empty, so that many small ones count too.
constexpr uint64_t kCostOfAPiece = 256;

absl::Status TextsFull(std::string_view what, size_t have, size_t limit) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.reason = Reason::kQueueFull,
                    .values = {{"have", absl::StrCat(have)}, {"limit", absl::StrCat(limit)}},
                    .retry_after = std::chrono::milliseconds(1000)},
                   absl::StrCat(have, " ", std::string(what),
                                " of text would wait to be processed and the limit is ", limit,
                                "; try again later"));
}

}  // namespace

absl::Status FairQueue::Push(PoolWork work) {
  if (size_ >= bounds_.pieces) return TextsFull("pieces", size_ + 1, bounds_.pieces);
  if (bytes_ + work.bytes > bounds_.bytes) {
    return TextsFull("bytes", bytes_ + work.bytes, bounds_.bytes);
  }
  Client& client = clients_[work.client];
  if (client.waiting.empty()) {
    client.served = std::max(client.served, now_);
    client.since = arrivals_++;
  }
  ++size_;
  bytes_ += work.bytes;
  client.waiting.push_back(std::move(work));
  return absl::OkStatus();
}

std::optional<PoolWork> FairQueue::Pop() {
  Client* next = nullptr;
  for (auto& [name, client] : clients_) {
    if (client.waiting.empty() || client.running >= bounds_.running) continue;
    const auto turn = [](const Client& c) { return std::pair(c.served, c.since); };
    if (next == nullptr || turn(client) < turn(*next)) next = &client;
  }
  if (next == nullptr) return std::nullopt;
  now_ = next->served;
  PoolWork work = Take(next, next->waiting.begin());
  next->served += work.bytes + kCostOfAPiece;
  ++next->running;
  return work;
}

void FairQueue::Done(const std::string& client) {
  const auto it = clients_.find(client);
  --it->second.running;
  ForgetIdle(it);
}

std::optional<PoolWork> FairQueue::Remove(uint64_t id) {
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    std::list<PoolWork>& waiting = it->second.waiting;
    const auto piece = std::find_if(waiting.begin(), waiting.end(),
                                    [&](const PoolWork& work) { return work.id == id; });
    if (piece == waiting.end()) continue;
    PoolWork work = Take(&it->second, piece);
    ForgetIdle(it);
    return work;
  }
  return std::nullopt;
}

PoolWork FairQueue::Take(Client* client, std::list<PoolWork>::iterator piece) {
  PoolWork work = std::move(*piece);
  client->waiting.erase(piece);
  --size_;
  bytes_ -= work.bytes;
  return work;
}

void FairQueue::ForgetIdle(Clients::iterator client) {
  if (client->second.waiting.empty() && client->second.running == 0) clients_.erase(client);
}

}  // namespace baton
