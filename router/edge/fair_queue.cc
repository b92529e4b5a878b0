#include "router/edge/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/edge/queue_full.h"

namespace baton {
namespace {

// A piece costs something even if it is empty, so that many small ones count too.
constexpr uint64_t kCostOfAPiece = 256;

absl::Status TextsFull(const std::string& what, size_t have, size_t limit) {
  return QueueFull(
      have, limit,
      absl::StrCat(have, " ", what, " of text would wait to be processed and the limit is ", limit,
                   "; try again later"));
}

// The error of a piece that leaves a full queue to another client.
absl::Status LeftToOthers(const std::string& what, size_t have, size_t limit) {
  return QueueFull(
      have, limit,
      absl::StrCat(have, " ", what, " of text wait to be processed, the limit is ", limit,
                   ", and no caller has more of them than this one; its last "
                   "text made room for another caller's; try again later"));
}

// How much of `have` is beyond `limit`.
size_t Beyond(size_t limit, size_t have) { return have > limit ? have - limit : 0; }

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
  client.bytes += work.bytes;
  client.waiting.push_back(std::move(work));
  return absl::OkStatus();
}

std::optional<FairQueue::Displaced> FairQueue::MakeRoomFor(const PoolWork& work) {
  const size_t pieces_lacking = Beyond(bounds_.pieces, size_ + 1);
  const size_t bytes_lacking = Beyond(bounds_.bytes, bytes_ + work.bytes);
  if ((pieces_lacking == 0 && bytes_lacking == 0) || clients_.empty()) return std::nullopt;
  const auto pieces_of = [](const auto& named) { return named.second.waiting.size(); };
  const auto bytes_of = [](const auto& named) { return named.second.bytes; };
  const auto most_pieces = std::ranges::max_element(clients_, {}, pieces_of);
  const auto most_bytes = std::ranges::max_element(clients_, {}, bytes_of);
  const auto mine = clients_.find(work.client);
  const bool known = mine != clients_.end();
  const size_t pieces_then = (known ? pieces_of(*mine) : 0) + 1;
  const size_t bytes_then = (known ? bytes_of(*mine) : 0) + work.bytes;
  // Both are looked at first, so that nobody leaves in vain.
  if (pieces_lacking > 0 && pieces_of(*most_pieces) < pieces_lacking + pieces_then) return {};
  if (bytes_lacking > 0 && bytes_of(*most_bytes) < bytes_lacking + bytes_then) return {};
  const auto from = bytes_lacking > 0 ? most_bytes : most_pieces;
  absl::Status full = bytes_lacking > 0 ? LeftToOthers("bytes", bytes_, bounds_.bytes)
                                        : LeftToOthers("pieces", size_, bounds_.pieces);
  Displaced displaced{.work = Take(&from->second, std::prev(from->second.waiting.end())),
                      .full = std::move(full)};
  ForgetIdle(from);
  return displaced;
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
  client->bytes -= work.bytes;
  return work;
}

void FairQueue::ForgetIdle(Clients::iterator client) {
  if (client->second.waiting.empty() && client->second.running == 0) clients_.erase(client);
}

}  // namespace baton
