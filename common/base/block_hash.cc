#include "common/base/block_hash.h"

namespace baton {
namespace {

// Keeps a chain apart from the salt before it, and an empty salt apart from zeros.
constexpr uint64_t kBlockBegins = 0x9E3779B97F4A7C15u;

// The finaliser of splitmix64: every bit of `x` reaches every bit of the result.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t HashSalt(std::string_view salt) {
  uint64_t hash = 0;
  for (const char c : salt) hash = Mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

uint64_t HashBlock(uint64_t parent, std::span<const TokenId> tokens) {
  uint64_t hash = parent + kBlockBegins;
  for (const TokenId token : tokens) hash = Mix(hash ^ static_cast<uint32_t>(token));
  return hash;
}

}  // namespace baton
