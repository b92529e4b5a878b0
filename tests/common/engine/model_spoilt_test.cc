// Real models with a token whose embedding is no number: what it spoils is its own sequence.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tests/common/engine/model_identity_fixture.h"

namespace baton {
namespace {

// Overwrites the embedding of `token`, bfloat16 [hidden], by NaN.
void SpoilEmbedding(const std::filesystem::path& file, TokenId token) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  uint64_t size = 0;
  stream.read(reinterpret_cast<char*>(&size), sizeof(size));
  std::string header(size, ' ');
  stream.read(header.data(), static_cast<std::streamsize>(size));
  const auto tensor = nlohmann::json::parse(header).at("model.embed_tokens.weight");
  ASSERT_EQ(tensor.at("dtype"), "BF16");
  const std::vector<uint16_t> row(kHidden, 0x7fc0);
  const auto bytes = static_cast<std::streamsize>(row.size() * sizeof(row[0]));
  stream.seekp(static_cast<std::streamoff>(sizeof(size) + size) +
               tensor.at("data_offsets").at(0).get<std::streamoff>() + token * bytes);
  stream.write(reinterpret_cast<const char*>(row.data()), bytes);
  ASSERT_TRUE(stream.good());
}

class ModelSpoiltTest : public ModelIdentityTest {
 protected:
  static constexpr TokenId kPoison = 200;

  // The model with one token spoilt.
  std::unique_ptr<LoadedModel> LoadSpoilt() {
    const bool codes = GetParam().kv_dtype != "auto";
    const std::filesystem::path spoilt = std::filesystem::path(folder_.path()) / "spoilt";
    std::filesystem::copy(*dir_ / (codes ? "heads_of_32" : "model"), spoilt);
    SpoilEmbedding(spoilt / "model.safetensors", kPoison);
    return test::MustLoad(spoilt, GetParam().device, GetParam().dtype, 512, GetParam().kv_dtype,
                          ProbeOf(GetParam().dtype, kHidden), kSwapBytes);
  }
  // How many tokens a request draws before nothing it computes is a number.
  static size_t DrawnBeforePoison(const SequenceSpec& spec, const Seen& alone) {
    if (std::ranges::find(spec.prompt, kPoison) != spec.prompt.end()) return 0;
    const auto drawn = std::ranges::find(alone.tokens, kPoison);
    return std::min(static_cast<size_t>(drawn - alone.tokens.begin()) + 1, alone.tokens.size());
  }
  // Returns how many of the requests ended by the token.
  uint64_t ExpectSameUpToPoison(EngineHarness* harness, std::latch* start = nullptr) {
    std::vector<SequenceId> ids;
    for (int32_t i = 0; i < kRequests; ++i) ids.push_back(harness->Admit(Request(i)));
    if (start != nullptr) start->count_down();
    uint64_t spoilt = 0;
    for (int32_t i = 0; i < kRequests; ++i) {
      const SequenceId id = ids[static_cast<size_t>(i)];
      const Seen& alone = alone_[static_cast<size_t>(i)];
      EXPECT_TRUE(harness->RunUntilOver(id));
      const Seen& seen = harness->seen(id);
      const size_t count = DrawnBeforePoison(Request(i), alone);
      if (count == alone.tokens.size()) {
        ExpectSame(seen, alone);
        continue;
      }
      ++spoilt;
      EXPECT_EQ(seen.tokens,
                std::vector<TokenId>(alone.tokens.begin(),
                                     alone.tokens.begin() + static_cast<ptrdiff_t>(count)));
      EXPECT_EQ(seen.finished->reason, FinishReason::kError);
      EXPECT_EQ(ReasonOf(seen.finished->status), Reason::kLogitsNotFinite);
    }
    EXPECT_FALSE(harness->fault().has_value());
    return spoilt;
  }

  ScratchFolder folder_;
};

TEST_P(ModelSpoiltTest, OthersOfTheBatchAreTheSameToTheBit) {
  const auto model = LoadSpoilt();
  for (const bool chunked : {false, true}) {
    EngineOptions options = Options();
    if (chunked) options.max_prefill_tokens = 40;
    options.enable_prefix_caching = true;
    std::latch admitted(1);
    auto harness = Start(options, 0, model.get(), &admitted);
    const uint64_t spoilt = ExpectSameUpToPoison(harness.get(), &admitted);
    EXPECT_GE(spoilt, 3u);
    EXPECT_LE(spoilt, 24u);
    // Again, in the blocks that they had, and by the prefix cache.
    EXPECT_EQ(ExpectSameUpToPoison(harness.get()), spoilt);
    EXPECT_EQ(harness->figures().ends_not_finite, 2 * spoilt);
    EXPECT_TRUE(harness->AllBlocksBack());
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelSpoiltTest, testing::ValuesIn(AllCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Int8, ModelSpoiltTest, testing::ValuesIn(QuantizedKvCases("int8")),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Fp8, ModelSpoiltTest, testing::ValuesIn(QuantizedKvCases("fp8")),
                         CaseName);

}  // namespace
}  // namespace baton
