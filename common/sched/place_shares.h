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

  RouterId Join();
  void SetDemand(RouterId router, const Demand& demand);
  void Leave(RouterId router);

  // What `router` may have now.
  Share Of(RouterId router, const PlaceCapacity& capacity, base::Instant now);

 private:
  EndRate rate_;
  std::map<RouterId, Demand> demands_;
  RouterId last_ = 0;
};

}  // namespace baton
