#pragma once

#include <cstdint>

namespace baton {

// How much is proposed for one sequence, by what came of it so far: twice as much where all of it
// was drawn, one id more than was drawn where a part was, and for a while nothing after proposals
// of which nothing was. Each such pause in a row is twice as long as the one before.
class ProposalPace {
 public:
  static constexpr int32_t kFirst = 3;          // ids, before anything is known
  static constexpr int32_t kShortestPause = 2;  // tokens
  static constexpr int32_t kLongestPause = 64;

  // `most` ids are proposed at best.
  explicit ProposalPace(int32_t most);

  // How many ids to propose behind `length` tokens, given what was fed and what was drawn of all
  // ids proposed until now.
  int32_t Next(int64_t length, int64_t fed, int64_t accepted);
  // What was foretold behind `length` tokens has cost something, and nothing of it was fed: an end
  // of a text that went on, or a token that another one was drawn for.
  void Miss(int64_t length) { Learn(length, 1, 0); }

 private:
  void Learn(int64_t length, int64_t fed, int64_t accepted);

  const int32_t most_;
  int32_t next_;
  int32_t pause_ = 0;       // the last one, in tokens
  int64_t resumes_at_ = 0;  // a length
  int64_t fed_ = 0, accepted_ = 0;
};

}  // namespace baton
