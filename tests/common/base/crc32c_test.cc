#include "common/base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace baton::base {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::byte> Filled(size_t size, int first, int step) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(first + step * static_cast<int>(i));
  }
  return bytes;
}

// RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, AnswersTheKnownVectors) {
  for (const auto crc : {Crc32c, Crc32cPortable}) {
    EXPECT_EQ(crc(Bytes("123456789"), 0), 0xe3069283u);
    EXPECT_EQ(crc(Bytes(""), 0), 0u);
    EXPECT_EQ(crc(Filled(32, 0, 0), 0), 0x8a9136aau);
    EXPECT_EQ(crc(Filled(32, 0xff, 0), 0), 0x62a8ab43u);
    EXPECT_EQ(crc(Filled(32, 0, 1), 0), 0x46dd794eu);
    EXPECT_EQ(crc(Filled(32, 31, -1), 0), 0x113fdb5cu);
  }
}

TEST(Crc32c, BothVersionsAgreeOnEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<std::byte> data(300);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= data.size(); ++size) {
      const auto part = std::span<const std::byte>(data).subspan(begin, size);
      EXPECT_EQ(Crc32c(part), Crc32cPortable(part)) << begin << " " << size;
    }
  }
}

TEST(Crc32c, ContinuesFromThePreviousValue) {
  const std::string_view text = "a relay baton is handed over in one piece";
  for (size_t split = 0; split <= text.size(); ++split) {
    EXPECT_EQ(Crc32c(Bytes(text.substr(split)), Crc32c(Bytes(text.substr(0, split)))),
              Crc32c(Bytes(text)));
  }
}

TEST(Crc32c, SeesEverySingleBit) {
  std::vector<std::byte> data(64);
  const uint32_t zero = Crc32c(data);
  for (size_t bit = 0; bit < 512; ++bit) {
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Crc32c(data), zero) << bit;
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace baton::base
