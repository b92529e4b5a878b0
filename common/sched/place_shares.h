#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/base/clock.h"

// How a worker lends its places, and its next steps' prompt tokens, to the routers that watch it.
namespace baton {

// What one router has of something, and what it could use in all, that included.
struct Claim {
  int64_t held = 0;
  int64_t wanted = 0;
};

// Divides `capacity` among claims and returns how much each may have in all. Every claim gets what
// it wants as far as an equal part goes, what is left over by the modest ones goes to the others,
// and what nobody wants is divided equally, so that whoever comes next need not ask first. What is
// held beyond its fair share is not lent a second time: the others wait until it ends. `turn` says
// which of equal claims comes first where a unit cannot be divided; it should move on.
std::vector<int64_t> DivideShares(int64_t capacity, std::span<const Claim> claims, uint64_t turn);

// How many requests should stand in a worker's line, beyond its places, so that no place is empty
// while a router sends the next request for it: what ends in the time that a placement takes.
class EndRate final {
 public:
  // `ended` counts all ends until `now`.
  int64_t LineFor(uint64_t ended, base::Instant now);

 private:
  base::Instant since_{};
  uint64_t ended_before_ = 0;
  double rate_ = 0;  // ends per second
};

// What a worker has to lend.
struct PlaceCapacity {
  int32_t places = 0;              // sequences that there may be before one waits for long
  bool short_of_blocks = false;    // one of them waits for blocks: nobody may be let in past it
  int32_t seats = 0;               // sequences that may run at once
  uint64_t ended = 0;              // sequences, since the worker began
  int32_t step_prompt_tokens = 0;  // tokens of prompts that one step takes
};

// How soon a worker lends a place to another router when the one that was told of it does not take
// it. A request may need places at two workers at once, and each may have lent its last one to a
// different router. If both moved on at the same pace they might never meet, so one kind of workers
// waits until the other has asked every router.
enum class LoanTurns {
  kQuick,  // 250 ms
  kSlow,   // a second for each router that watches
};

// The claims of all routers that watch a worker. Not thread-safe.
class PlaceShares final {
 public:
  using RouterId = uint64_t;
  struct Demand {
    Claim places, prompt_tokens;
  };
  struct Share {
    int64_t places = 0, prompt_tokens = 0;
  };
  explicit PlaceShares(LoanTurns turns) : turns_(turns) {}

  RouterId Join();
  void SetDemand(RouterId router, const Demand& demand);
  void Leave(RouterId router);
  // What all routers have together.
  int64_t held() const;

  // What `router` may have now. To be called now and then for each of them, even while nothing
  // changes: places that nobody takes go round.
  Share Of(RouterId router, const PlaceCapacity& capacity, base::Instant now);

 private:
  struct Borrower {
    Demand demand;
    // Since it was told of places that it wants, has not taken and others wait for; kNever: it was
    // not.
    base::Instant idle_since{base::kNever};
  };
  using Borrowers = std::map<RouterId, Borrower>;

  std::vector<int64_t> Places(int64_t lent, const PlaceCapacity& capacity) const;
  // Whether others wait for what `router` does not take, and did so for long enough.
  bool LeavesIdle(Borrowers::iterator router, const std::vector<int64_t>& places,
                  base::Instant now);
  base::Duration Patience() const;

  const LoanTurns turns_;
  EndRate rate_;
  Borrowers borrowers_;
  uint64_t passed_on_ = 0;  // how often places went on to the next router, because they lay idle
  RouterId last_ = 0;
};

}  // namespace baton
