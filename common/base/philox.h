#pragma once

#include <array>
#include <cstdint>

namespace baton::base {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure
// function of (key, counter), so no generator state has to travel with a request.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// The coin of one draw, uniform in [0, 1) with 53 bits. `position` is the number of tokens before
// the drawn one (prompt and generated); `draw` is 0, or 1 for the redraw under IGNORE_MASK.
constexpr double Coin(uint64_t seed, uint32_t position, uint32_t draw) {
  const auto words = Philox4x32({position, draw, 0, 0}, seed);
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace baton::base
