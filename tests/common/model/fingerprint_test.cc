#include "common/model/fingerprint.h"

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "common/base/fnv128.h"
#include "common/model/random/random_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FingerprintTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteRandomModel({.dtype = "float32", .seed = 3}, dir_ / "m").ok());
  }
  std::string Fingerprint(kernels::DType dtype = kernels::DType::kF32) {
    const auto files = CheckpointFiles::Open(dir_ / "m");
    EXPECT_TRUE(files.ok()) << files.status();
    const auto fingerprint = ModelFingerprint(dir_ / "m", **files, dtype);
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status();
    return fingerprint.value_or("");
  }

  ScratchFolder dir_;
};

TEST_F(FingerprintTest, HashesAsPublished) {
  Fnv128 hash;
  EXPECT_EQ(hash.Hex(), "6c62272e07bb014262b821756295c58d");
  const std::byte a[] = {std::byte{'a'}};
  hash.Add(std::span<const std::byte>(a));
  EXPECT_EQ(hash.Hex(), "d228cb696f1a8caf78912b704e4a8964");
}

TEST_F(FingerprintTest, IsEqualForACopyElsewhere) {
  const std::string here = Fingerprint();
  EXPECT_EQ(here.size(), 32U);
  std::filesystem::copy(dir_ / "m", dir_ / "copy", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(dir_ / "m");
  std::filesystem::rename(dir_ / "copy", dir_ / "m");
  EXPECT_EQ(Fingerprint(), here);
}

TEST_F(FingerprintTest, AFileThatCannotBeReachedIsAnError) {
  const auto files = CheckpointFiles::Open(dir_ / "m");
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string path = dir_ / "m/tokenizer.json";
  std::filesystem::remove(path);
  std::filesystem::create_symlink(path, path);
  const absl::Status failed = ModelFingerprint(dir_ / "m", **files, kernels::DType::kF32).status();
  EXPECT_TRUE(absl::IsNotFound(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), AllOf(HasSubstr(path), HasSubstr("symbolic links")));
}

TEST_F(FingerprintTest, DiffersByDtypeConfigTokenizerAndWeights) {
  const std::string original = Fingerprint();
  EXPECT_NE(Fingerprint(kernels::DType::kBF16), original);

  std::ifstream in(dir_ / "m/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["rope_theta"] = 20000.0;
  std::ofstream(dir_ / "m/config.json") << config;
  const std::string other_config = Fingerprint();
  EXPECT_NE(other_config, original);

  std::ofstream(dir_ / "m/tokenizer.json", std::ios::app) << "\n";
  const std::string other_tokenizer = Fingerprint();
  EXPECT_NE(other_tokenizer, other_config);

  // One sampled byte of the last tensor.
  std::fstream file(dir_ / "m/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  EXPECT_NE(Fingerprint(), other_tokenizer);
}

}  // namespace
}  // namespace baton
