#include "common/sample/ngram_index.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

// Hashes are polynomials in the base over the integers modulo this prime: two contexts that differ
// have the same hash for at most as many bases as they have tokens.
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

uint64_t TimesModPrime(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
}

uint64_t PowerModPrime(uint64_t base, size_t exponent) {
  uint64_t power = 1;
  for (size_t i = 0; i < exponent; ++i) power = TimesModPrime(power, base);
  return power;
}

// A context and an id behind it as one number.
uint64_t Both(int32_t context, TokenId id) {
  return uint64_t{static_cast<uint32_t>(context)} << 32 | static_cast<uint32_t>(id);
}

}  // namespace

NgramIndex::NgramIndex(int32_t n, uint64_t hash_base)
    : n_(n),
      length_(n > 0 ? static_cast<size_t>(n) - 1 : 0),
      base_(hash_base % kPrime),
      leaving_(PowerModPrime(base_, length_)) {
  BATON_CHECK(n >= 0) << "n-grams of " << n << " tokens";
}

std::span<const TokenId> NgramIndex::BannedAfter(std::span<const TokenId> history) {
  if (n_ == 0) return {};
  BATON_CHECK(history.size() >= seen_) << history.size() << " tokens after " << seen_;
  if (length_ == 0 && contexts_.empty()) current_ = FindOrAdd(history, 0);
  while (seen_ < history.size()) Append(history);
  banned_.clear();
  AddBanned();
  return banned_;
}

std::vector<std::span<const TokenId>> NgramIndex::BannedAlong(std::span<const TokenId> history,
                                                              size_t given) {
  std::vector<std::span<const TokenId>> answers(given + 1);
  if (n_ == 0) return answers;
  BannedAfter(history.first(history.size() - given));
  const Place known = Here();
  std::vector<size_t> ends = {banned_.size()};
  while (seen_ < history.size()) {
    Append(history);
    AddBanned();
    ends.push_back(banned_.size());
  }
  GoBackTo(known);
  size_t begin = 0;
  for (size_t i = 0; i < answers.size(); begin = ends[i++]) {
    answers[i] = std::span(banned_).subspan(begin, ends[i] - begin);
  }
  return answers;
}

void NgramIndex::AddBanned() {
  if (current_ == kNone) return;
  const size_t before = banned_.size();
  for (int32_t i = contexts_[current_].last_follower; i != kNone; i = followers_[i].before) {
    banned_.push_back(followers_[i].id);
  }
  work_ += static_cast<int64_t>(banned_.size() - before);
}

NgramIndex::Place NgramIndex::Here() const {
  return {.seen = seen_,
          .hash = hash_,
          .current = current_,
          .contexts = contexts_.size(),
          .followers = followers_.size()};
}

void NgramIndex::GoBackTo(const Place& place) {
  for (; followers_.size() > place.followers; followers_.pop_back()) {
    const Follower& last = followers_.back();
    contexts_[last.context].last_follower = last.before;
    context_and_id_.erase(Both(last.context, last.id));
  }
  for (; contexts_.size() > place.contexts; contexts_.pop_back()) {
    const Context& last = contexts_.back();
    if (last.same_hash == kNone) {
      by_hash_.erase(last.hash);
    } else {
      by_hash_[last.hash] = last.same_hash;
    }
  }
  seen_ = place.seen;
  hash_ = place.hash;
  current_ = place.current;
}

void NgramIndex::Append(std::span<const TokenId> history) {
  if (current_ != kNone) AddFollower(current_, history[seen_]);
  Roll(history);
  ++seen_;
  if (seen_ >= length_) current_ = FindOrAdd(history, seen_);
}

// Takes the next token into the hash, and the one that leaves the context out of it.
void NgramIndex::Roll(std::span<const TokenId> history) {
  const auto value = [&](size_t i) { return static_cast<uint64_t>(history[i]) % kPrime; };
  hash_ = (TimesModPrime(hash_, base_) + value(seen_)) % kPrime;
  if (seen_ < length_) return;
  hash_ = (hash_ + kPrime - TimesModPrime(value(seen_ - length_), leaving_)) % kPrime;
}

// The context that stands before index `end`, whose hash is `hash_`.
int32_t NgramIndex::FindOrAdd(std::span<const TokenId> history, size_t end) {
  const auto tokens = [&](size_t until) { return history.subspan(until - length_, length_); };
  const auto [newest, is_new] = by_hash_.try_emplace(hash_, kNone);
  ++work_;
  for (int32_t i = newest->second; i != kNone; i = contexts_[i].same_hash) {
    ++work_;
    if (std::ranges::equal(tokens(contexts_[i].end), tokens(end))) return i;
  }
  contexts_.push_back(
      {.end = static_cast<int32_t>(end), .same_hash = newest->second, .hash = hash_});
  newest->second = static_cast<int32_t>(contexts_.size()) - 1;
  return newest->second;
}

void NgramIndex::AddFollower(int32_t context, TokenId id) {
  ++work_;
  if (!context_and_id_.insert(Both(context, id)).second) return;
  followers_.push_back({.id = id, .context = context, .before = contexts_[context].last_follower});
  contexts_[context].last_follower = static_cast<int32_t>(followers_.size()) - 1;
}

}  // namespace baton
