#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "common/base/clock.h"

namespace baton {

// What one answer's guide has cost, in time of a processor: whether others would feel it in their
// steps, and what it may still cost. Both are debts that every token pays a part of, so that an
// answer costs at most so much for each token, and a little at once.
//
// It is time, and not what the parser counts, because that tells nothing about time: of two rows of
// 1200 items each, one takes half a millisecond and the other a hundred.
class GuideBudget final {
 public:
  // What an answer may cost at once, and for each token over many. Answers as people ask for them
  // take less than 1 ms for each token at a vocabulary of 128 000; the dearest whose grammar is
  // still read in one way, with a terminal for each character, takes 50 ms.
  static constexpr base::Duration kAtOnce = std::chrono::seconds(1);
  static constexpr base::Duration kEachToken = std::chrono::milliseconds(100);
  // A mask takes some 50 us; work that takes this long would be felt by everybody in its step.
  static constexpr base::Duration kFelt = std::chrono::milliseconds(2);

  void Take(size_t tokens) {
    Pay(&owed_, tokens * kEachToken);
    Pay(&felt_, tokens * kFelt);
  }
  void Spend(base::Duration took) {
    owed_ += took;
    felt_ += took;
  }
  // What work may take now; nothing where the answer has cost too much.
  base::Duration left() const { return kAtOnce - owed_; }
  bool spent() const { return left() <= base::Duration::zero(); }
  // Whether nobody should wait for the next work.
  bool slow() const { return felt_ > kFelt; }

 private:
  static void Pay(base::Duration* debt, base::Duration part) {
    *debt = std::max(base::Duration::zero(), *debt - part);
  }

  base::Duration owed_{};
  base::Duration felt_{};
};

}  // namespace baton
