#pragma once

#include <cstdint>

namespace baton {

// The seed of the answer `index` of a request for several: the request's own for the first, and for
// a further one the `index`-th output of SplitMix64 whose state begins as the request's seed.
// Clients compute it, too (proto/baton/v1/inference.proto, SamplingParams.n), so it never changes.
// Source of the constants: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014.
constexpr uint64_t SeedOfAnswer(uint64_t seed, int32_t index) {
  if (index == 0) return seed;
  uint64_t z = seed + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace baton
