#include "common/base/fnv128.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace baton {

void Fnv128::Add(std::span<const std::byte> bytes) {
  constexpr unsigned __int128 kPrime = static_cast<unsigned __int128>(1) << 88 | 0x13b;
  for (const std::byte byte : bytes) {
    state_ ^= std::to_integer<uint8_t>(byte);
    state_ *= kPrime;
  }
}

void Fnv128::Add(std::string_view text) {
  const uint64_t size = text.size();
  Add(std::as_bytes(std::span(&size, 1)));
  Add(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Fnv128::Hex() const {
  return absl::StrCat(absl::Hex(static_cast<uint64_t>(state_ >> 64), absl::kZeroPad16),
                      absl::Hex(static_cast<uint64_t>(state_), absl::kZeroPad16));
}

}  // namespace baton
