#include "common/speculate/ngram_lookup.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kFewestBuckets = 64;

// How many of the ids before `a` and before `b` are equal, at most `most`.
int32_t EqualBefore(std::span<const TokenId> history, size_t a, size_t b, int32_t most) {
  int32_t equal = 0;
  while (equal < most && static_cast<size_t>(equal) < std::min(a, b) &&
         history[a - 1 - static_cast<size_t>(equal)] ==
             history[b - 1 - static_cast<size_t>(equal)]) {
    ++equal;
  }
  return equal;
}

}  // namespace

NgramLookup::NgramLookup(NgramLengths lengths)
    : lengths_(lengths), shortest_(static_cast<size_t>(lengths.shortest)) {
  BATON_CHECK(lengths.shortest >= 1 && lengths.longest >= lengths.shortest)
      << "n-grams of " << lengths.shortest << " to " << lengths.longest << " ids";
}

std::span<const TokenId> NgramLookup::After(std::span<const TokenId> history, int32_t most) {
  BATON_CHECK(history.size() >= indexed_) << history.size() << " ids after " << indexed_;
  followed_.clear();
  if (history.size() <= shortest_ || most < 1) return {};
  Index(history);
  const int32_t place = BestPlace(history);
  if (place == kNone) return {};
  for (auto i = static_cast<size_t>(place); followed_.size() < static_cast<size_t>(most); ++i) {
    followed_.push_back(i < history.size() ? history[i] : followed_[i - history.size()]);
  }
  return followed_;
}

size_t NgramLookup::BucketOf(std::span<const TokenId> history, size_t end) const {
  uint64_t hash = 0;
  for (size_t i = end - shortest_; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(history[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash & (newest_.size() - 1);
}

// The end of the history itself is left out: it is what is looked for.
void NgramLookup::Index(std::span<const TokenId> history) {
  if (newest_.size() < history.size()) Grow(history, history.size());
  for (size_t end = std::max(indexed_, shortest_ - 1) + 1; end < history.size(); ++end) {
    int32_t& newest = newest_[BucketOf(history, end)];
    before_.push_back(newest);
    newest = static_cast<int32_t>(end);
    ++work_;
  }
  indexed_ = history.size() - 1;
}

// Twice as many buckets each time, so all that is chained anew adds up to what was chained once.
void NgramLookup::Grow(std::span<const TokenId> history, size_t places) {
  newest_.assign(std::max(kFewestBuckets, std::bit_ceil(places)), kNone);
  for (size_t i = 0; i < before_.size(); ++i) {
    const size_t end = shortest_ + i;
    int32_t& newest = newest_[BucketOf(history, end)];
    before_[i] = newest;
    newest = static_cast<int32_t>(end);
    ++work_;
  }
}

int32_t NgramLookup::BestPlace(std::span<const TokenId> history) {
  int32_t best = kNone;
  int32_t longest = lengths_.shortest - 1;
  int32_t end = newest_[BucketOf(history, history.size())];
  for (int32_t looks = 0; end != kNone && looks < kLooks && longest < lengths_.longest; ++looks) {
    ++work_;
    const int32_t equal =
        EqualBefore(history, static_cast<size_t>(end), history.size(), lengths_.longest);
    if (equal > longest) {
      longest = equal;
      best = end;
    }
    end = before_[static_cast<size_t>(end) - shortest_];
  }
  return best;
}

}  // namespace baton
