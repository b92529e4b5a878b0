#include "common/sched/place_shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace baton {
namespace {

constexpr base::Duration kWindow = std::chrono::milliseconds(500);
// From the end of one request until the next one, sent for its place, stands in the line.
constexpr base::Duration kPlacementLatency = std::chrono::milliseconds(10);
// Enough for a router that can use a place to take it and to say so, where statuses are not rare.
constexpr base::Duration kPatience = std::chrono::milliseconds(250);

// Fills all vessels to one level, none beyond its brim, until `amount` is used up. A unit that
// cannot be divided goes to the vessels from `turn` on. Returns what each got.
std::vector<int64_t> FillToOneLevel(int64_t amount, std::span<const int64_t> brims, uint64_t turn) {
  const size_t n = brims.size();
  std::vector<int64_t> filled(n, 0);
  std::vector<size_t> open;
  for (size_t i = 0; i < n; ++i) open.push_back((i + turn) % n);
  while (amount > 0 && !open.empty()) {
    std::erase_if(open, [&](size_t i) { return filled[i] >= brims[i]; });
    if (open.empty()) break;
    int64_t rise = std::max<int64_t>(1, amount / static_cast<int64_t>(open.size()));
    for (const size_t i : open) rise = std::min(rise, brims[i] - filled[i]);
    for (const size_t i : open) {
      const int64_t added = std::min(rise, amount);
      filled[i] += added;
      amount -= added;
    }
  }
  return filled;
}

}  // namespace

std::vector<int64_t> DivideShares(int64_t capacity, std::span<const Claim> claims, uint64_t turn) {
  const size_t n = claims.size();
  if (n == 0) return {};
  std::vector<int64_t> brims(n);
  int64_t held = 0;
  for (size_t i = 0; i < n; ++i) {
    brims[i] = std::max(claims[i].held, claims[i].wanted);
    held += claims[i].held;
  }
  std::vector<int64_t> fair = FillToOneLevel(capacity, brims, turn);
  int64_t unwanted = capacity;
  for (const int64_t part : fair) unwanted -= part;
  for (size_t i = 0; i < n; ++i) {
    const auto left = static_cast<int64_t>(n - i);
    const int64_t part = (unwanted + left - 1) / left;  // rounded up: the first get the odd ones
    fair[(i + turn) % n] += part;
    unwanted -= part;
  }
  std::vector<int64_t> below(n);
  for (size_t i = 0; i < n; ++i) below[i] = std::max<int64_t>(0, fair[i] - claims[i].held);
  const std::vector<int64_t> more =
      FillToOneLevel(std::max<int64_t>(0, capacity - held), below, turn);
  for (size_t i = 0; i < n; ++i) {
    if (below[i] > 0) fair[i] = claims[i].held + more[i];
  }
  return fair;
}

int64_t EndRate::LineFor(uint64_t ended, base::Instant now) {
  if (now - since_ >= kWindow) {
    rate_ = since_ == base::Instant()
                ? 0
                : static_cast<double>(ended - ended_before_) / base::Seconds(now - since_);
    since_ = now;
    ended_before_ = ended;
  }
  return std::llround(rate_ * base::Seconds(kPlacementLatency));
}

PlaceShares::RouterId PlaceShares::Join() {
  borrowers_.emplace(++last_, Borrower());
  return last_;
}

void PlaceShares::SetDemand(RouterId router, const Demand& demand) {
  const auto found = borrowers_.find(router);
  if (found != borrowers_.end()) found->second.demand = demand;
}

void PlaceShares::Leave(RouterId router) { borrowers_.erase(router); }

int64_t PlaceShares::held() const {
  int64_t held = 0;
  for (const auto& [id, borrower] : borrowers_) held += borrower.demand.places.held;
  return held;
}

PlaceShares::Share PlaceShares::Of(RouterId router, const PlaceCapacity& capacity,
                                   base::Instant now) {
  const auto found = borrowers_.find(router);
  if (found == borrowers_.end()) return {};
  int64_t lent = capacity.places;
  if (capacity.places >= capacity.seats && !capacity.short_of_blocks) {
    lent += std::min<int64_t>(capacity.seats / 4, rate_.LineFor(capacity.ended, now));
  }
  std::vector<int64_t> places = Places(lent, capacity);
  if (LeavesIdle(found, places, now)) {
    ++passed_on_;
    for (auto& [id, borrower] : borrowers_) borrower.idle_since = base::kNever;
    places = Places(lent, capacity);
  }
  std::vector<Claim> tokens;
  for (const auto& [id, borrower] : borrowers_) tokens.push_back(borrower.demand.prompt_tokens);
  const auto index = static_cast<size_t>(std::distance(borrowers_.begin(), found));
  // Two steps: one that computes, and one that is ready when it ends.
  const int64_t next_tokens = int64_t{2} * capacity.step_prompt_tokens;
  return {.places = places[index],
          .prompt_tokens = DivideShares(next_tokens, tokens, capacity.ended + passed_on_)[index]};
}

std::vector<int64_t> PlaceShares::Places(int64_t lent, const PlaceCapacity& capacity) const {
  std::vector<Claim> claims;
  for (const auto& [id, borrower] : borrowers_) claims.push_back(borrower.demand.places);
  return DivideShares(lent, claims, capacity.ended + passed_on_);
}

bool PlaceShares::LeavesIdle(Borrowers::iterator router, const std::vector<int64_t>& places,
                             base::Instant now) {
  bool idle = false, waited_for = false;
  auto share = places.begin();
  for (auto other = borrowers_.begin(); other != borrowers_.end(); ++other, ++share) {
    const Claim& claim = other->second.demand.places;
    const bool wants = claim.wanted > claim.held;
    if (other == router) {
      idle = wants && *share > claim.held;
    } else {
      waited_for = waited_for || (wants && *share <= claim.held);
    }
  }
  base::Instant& since = router->second.idle_since;
  if (!idle || !waited_for) {
    since = base::kNever;
  } else if (since == base::kNever) {
    since = now;
  }
  return since != base::kNever && now - since >= Patience();
}

base::Duration PlaceShares::Patience() const {
  if (turns_ == LoanTurns::kQuick) return kPatience;
  // A quick worker needs its patience and a status or two, each within half a second, for a router.
  return kPatience * 4 * static_cast<int64_t>(borrowers_.size());
}

}  // namespace baton
