#include "common/speculate/proposal_pace.h"

#include <algorithm>

namespace baton {

ProposalPace::ProposalPace(int32_t most) : most_(most), next_(std::min(most, kFirst)) {}

int32_t ProposalPace::Next(int64_t length, int64_t fed, int64_t accepted) {
  if (fed > fed_) Learn(length, fed - fed_, accepted - accepted_);
  fed_ = fed;
  accepted_ = accepted;
  return length < resumes_at_ ? 0 : next_;
}

void ProposalPace::Learn(int64_t length, int64_t fed, int64_t accepted) {
  if (accepted == 0) {
    next_ = 1;
    pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
    resumes_at_ = length + pause_;
    return;
  }
  pause_ = 0;
  const int64_t wanted = accepted == fed ? std::max<int64_t>(next_, 2 * fed) : accepted + 1;
  next_ = static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, most_));
}

}  // namespace baton
