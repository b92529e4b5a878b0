#include "common/base/sha256.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace baton {
namespace {

// FIPS 180-2, appendix B.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kMillionA[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, OfBytes) {
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(Sha256Hex(std::string(1'000'000, 'a')), kMillionA);
}

TEST(Sha256, OfAFileIsThatOfItsContent) {
  const std::string path = ::testing::TempDir() + "sha256_test";
  for (const size_t bytes : {size_t{0}, size_t{3}, size_t{1} << 20, (size_t{1} << 20) + 1}) {
    const std::string content(bytes, 'a');
    std::ofstream(path, std::ios::binary) << content;
    const auto sum = Sha256OfFile(path);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, Sha256Hex(content)) << bytes;
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(Sha256OfFile(path).status()));
}

}  // namespace
}  // namespace baton
