#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"

namespace baton {

// How many of the last ids of a history are looked for in what stands before them.
struct NgramLengths {
  int32_t shortest = 2;  // fewer equal ids are no reason to expect the same again
  int32_t longest = 4;   // more equal ids count no more than these

  friend bool operator==(const NgramLengths&, const NgramLengths&) = default;
};

// Foretells a text by what followed its last ids when they stood there before: the place where most
// of them did, of equal ones the latest. Much of what models write stands in their prompt, or they
// have written it already.
//
// Places are chained by a hash of their last `shortest` ids and compared id by id. A chain is
// followed for kLooks places and no further, so an id costs the same however long and however
// repetitive a history is; where one phrase occurs more often than that, only its last occurrences
// are looked at. Memory is 8 to 12 bytes for each id.
class NgramLookup {
 public:
  static constexpr int32_t kLooks = 32;

  explicit NgramLookup(NgramLengths lengths);

  // The ids that followed, at most `most`, or none. `history` begins with that of the last call;
  // what was appended is indexed here. Where the place is so late that too little follows it, it is
  // as if the text went on in circles. The span is valid until the next call.
  std::span<const TokenId> After(std::span<const TokenId> history, int32_t most);

  // Places looked at and ids indexed so far.
  int64_t work() const { return work_; }

 private:
  static constexpr int32_t kNone = -1;

  size_t BucketOf(std::span<const TokenId> history, size_t end) const;
  void Index(std::span<const TokenId> history);
  void Grow(std::span<const TokenId> history, size_t places);
  // The index at which the ids that followed begin, or kNone.
  int32_t BestPlace(std::span<const TokenId> history);

  const NgramLengths lengths_;
  const size_t shortest_;
  size_t indexed_ = 0;           // ends of n-grams up to here are in the chains
  std::vector<int32_t> newest_;  // [buckets, a power of two] the latest end with a hash
  std::vector<int32_t> before_;  // [ends] the end before it in its chain
  std::vector<TokenId> followed_;
  int64_t work_ = 0;
};

}  // namespace baton
