#include "common/base/crc32c.h"

#include <immintrin.h>

#include <array>
#include <cstring>

namespace baton::base {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(std::span<const std::byte> data,
                                                       uint32_t crc) {
  uint64_t state = ~crc;
  size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data.data() + i, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t tail = static_cast<uint32_t>(state);
  for (; i < data.size(); ++i) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(data[i]));
  return ~tail;
}

}  // namespace

uint32_t Crc32cPortable(std::span<const std::byte> data, uint32_t crc) {
  uint32_t state = ~crc;
  for (const std::byte byte : data) {
    state = (state >> 8) ^ kTable[(state ^ static_cast<uint8_t>(byte)) & 0xFF];
  }
  return ~state;
}

uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc) {
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  return has_sse42 ? Crc32cSse42(data, crc) : Crc32cPortable(data, crc);
}

}  // namespace baton::base
