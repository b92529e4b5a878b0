#include "common/formats/eos_probe_file.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "common/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::HasSubstr;

EosProbeFile Linear() {
  return {.kind = EosProbeKind::kLinear,
          .model_fingerprint = "0123456789abcdef0123456789abcdef",
          .probe = {.hidden = 3,
                    .dims = 2,
                    .layer = 1,
                    .directions = {1, -2, 0.1F, 4e-30F, 5, 6},
                    .biases = {0.5F, -7}}};
}

class EosProbeFileTest : public testing::Test {
 protected:
  absl::StatusOr<EosProbeFile> Load(const std::string& text) {
    return LoadEosProbeFile(folder_.Write("probe.json", text));
  }

  // What is said of a good file in which something was changed.
  std::string RefusalAfter(const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json json = nlohmann::json::parse(EosProbeFileText(Linear()));
    change(json);
    const auto loaded = Load(json.dump());
    if (loaded.ok()) return "taken";
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(path_));
    return std::string(loaded.status().message());
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_ / "probe.json";
};

void ExpectSame(const EosProbeFile& actual, const EosProbeFile& expected) {
  EXPECT_EQ(actual.kind, expected.kind);
  EXPECT_EQ(actual.model_fingerprint, expected.model_fingerprint);
  EXPECT_EQ(actual.seed, expected.seed);
  EXPECT_EQ(actual.probe.hidden, expected.probe.hidden);
  EXPECT_EQ(actual.probe.dims, expected.probe.dims);
  EXPECT_EQ(actual.probe.layer, expected.probe.layer);
  EXPECT_EQ(actual.probe.directions, expected.probe.directions);
  EXPECT_EQ(actual.probe.biases, expected.probe.biases);
}

TEST_F(EosProbeFileTest, ALinearProbeIsReadAsItWasWritten) {
  const auto loaded = Load(EosProbeFileText(Linear()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectSame(*loaded, Linear());
}

TEST_F(EosProbeFileTest, ARandomProbeIsReadAsItWasWritten) {
  const auto probe = MakeRandomEosProbe(96, 64, std::nullopt, 7);
  ASSERT_TRUE(probe.ok()) << probe.status();
  const EosProbeFile file = {
      .kind = EosProbeKind::kRandom, .model_fingerprint = "f", .seed = 7, .probe = *probe};
  const auto loaded = Load(EosProbeFileText(file));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectSame(*loaded, file);
}

TEST_F(EosProbeFileTest, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(LoadEosProbeFile(path_).status().ToString(), HasSubstr("baton eos make-probe"));
  EXPECT_THAT(Load("no JSON").status().ToString(), HasSubstr("is not JSON"));
  using nlohmann::json;
  EXPECT_THAT(RefusalAfter([](json& file) { file["format"] = "x"; }), HasSubstr("baton-probe"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["version"] = 2; }), HasSubstr("version"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["kind"] = "odd"; }), HasSubstr("linear"));
  EXPECT_THAT(RefusalAfter([](json& file) { file.erase("model_fingerprint"); }),
              HasSubstr("model_fingerprint"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["dims"] = 65; }), HasSubstr("dims"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["dims"] = 0; }), HasSubstr("dims"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["hidden"] = 4; }),
              HasSubstr("32 bytes; expected 40"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["layer"] = -1; }), HasSubstr("layer"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["payload"] = "!"; }), HasSubstr("base64"));
  EXPECT_THAT(RefusalAfter([](json& file) { file["sha256"] = "00"; }), HasSubstr("damaged"));
  EXPECT_THAT(RefusalAfter([](json& file) { file.erase("payload"); }), HasSubstr("0 bytes"));
}

TEST_F(EosProbeFileTest, ABitThatFlippedIsFound) {
  EXPECT_THAT(RefusalAfter([](nlohmann::json& file) {
                std::string payload = file["payload"];
                payload[3] = payload[3] == 'A' ? 'B' : 'A';
                file["payload"] = payload;
              }),
              HasSubstr("sha256"));
}

TEST_F(EosProbeFileTest, NumbersThatAreNotFiniteAreRefused) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EosProbeFile file = Linear();
    file.probe.directions[4] = bad;
    EXPECT_THAT(Load(EosProbeFileText(file)).status().ToString(), HasSubstr("not finite"));
    file = Linear();
    file.probe.biases[1] = bad;
    EXPECT_THAT(Load(EosProbeFileText(file)).status().ToString(), HasSubstr("not finite"));
  }
}

TEST(EosProbeFileModelTest, AnotherModelsFingerprintIsTold) {
  const EosProbeFile file = Linear();
  EXPECT_TRUE(CheckMadeFor(file, "p.json", file.model_fingerprint).ok());
  const absl::Status foreign = CheckMadeFor(file, "p.json", "abcd");
  EXPECT_EQ(foreign.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(foreign.ToString(), HasSubstr("the linear probe p.json"));
  EXPECT_THAT(foreign.ToString(), HasSubstr(file.model_fingerprint));
  EXPECT_THAT(foreign.ToString(), HasSubstr("abcd"));
}

TEST(RandomEosProbeTest, DirectionsAreOrthonormalAndOfTheSeed) {
  const int32_t hidden = 65;
  const auto probe = MakeRandomEosProbe(hidden, 64, 3, 11);
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ(probe->layer, 3);
  for (int32_t a = 0; a < probe->dims; ++a) {
    for (int32_t b = 0; b <= a; ++b) {
      double dot = 0;
      for (int32_t i = 0; i < hidden; ++i) {
        dot += double{probe->directions[a * hidden + i]} * probe->directions[b * hidden + i];
      }
      EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-6) << a << " " << b;
    }
  }
  EXPECT_EQ(MakeRandomEosProbe(hidden, 64, 3, 11)->directions, probe->directions);
  EXPECT_NE(MakeRandomEosProbe(hidden, 64, 3, 12)->directions, probe->directions);
}

TEST(RandomEosProbeTest, RefusesMoreDirectionsThanThereCanBe) {
  EXPECT_THAT(MakeRandomEosProbe(8, 9, std::nullopt, 0).status().ToString(),
              HasSubstr("9 directions in a hidden state of 8"));
  EXPECT_THAT(MakeRandomEosProbe(128, 65, std::nullopt, 0).status().ToString(),
              HasSubstr("expected 1 to 64"));
  EXPECT_FALSE(MakeRandomEosProbe(8, 0, std::nullopt, 0).ok());
}

}  // namespace
}  // namespace baton
