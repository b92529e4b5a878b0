#include "common/eos/predict/predictor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/eos/predict/sealed_json.h"

namespace baton {
namespace {

using testing::HasSubstr;

// A survival file whose model is `model`, with the rest as `head` says.
std::string FileWith(const std::string& model, const std::string& head = "",
                     const std::string& features = R"("features":[],"mean":[],"scale":[])") {
  return SealJson(kPredictorFormat, kPredictorVersion,
                  R"({"model_fingerprint":"f1","name":"n","made_by":"test",)"
                  R"("bins":[1,2,4,8,16,32,64,128,256,1024],"tail_mean":2048,"probe":null,)" +
                      head + features + R"(,"model":)" + model + R"(,"calibration":null})");
}
constexpr char kSurvival[] =
    R"({"kind":"survival","classes":{"a":{"steps":[2,4],"hazard":[0.5,0.25]}},"default":"a"})";

std::string ErrorOf(const std::string& text) {
  const auto file = ParsePredictorFile(text);
  EXPECT_FALSE(file.ok()) << text;
  return std::string(file.status().message());
}

TEST(PredictorFileTest, SaysWhatItHolds) {
  const auto file = ParsePredictorFile(FileWith(kSurvival));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->model_fingerprint, "f1");
  EXPECT_EQ(file->model->kind(), PredictorKind::kSurvival);
  EXPECT_EQ(file->rows_to_warm_up, 0);
}

// A model whose numbers leave what can be computed.
class NoNumber final : public EosPredictor {
 public:
  PredictorKind kind() const override { return PredictorKind::kMlp; }
  size_t state_size() const override { return 0; }
  EndLogits Step(const PredictorInput&, std::span<double>) const override {
    EndLogits logits{};
    logits[3] = std::nan("");
    return logits;
  }
};

TEST(PredictorFileTest, WhatIsNoNumberIsNoChanceEither) {
  PredictorFile file;
  file.model = std::make_unique<NoNumber>();
  const SignalFeatures features(PredictRequest{});
  EXPECT_FALSE(file.Step({features, "a"}, {}).has_value());
  for (Calibration& bin : file.calibration) bin = {.x = {-1, 1}, .y = {-2, 2}};
  EXPECT_FALSE(file.Step({features, "a"}, {}).has_value()) << "a calibration hides it";
}

TEST(PredictorFileTest, SurvivalIsTheProductOverSteps) {
  const auto file = ParsePredictorFile(FileWith(kSurvival));
  ASSERT_TRUE(file.ok()) << file.status();
  SignalFeatures features({});
  features.Add({});
  const auto chances = file->Step({features, "a"}, {});
  ASSERT_TRUE(chances.has_value());
  // Behind step 1 come the hazards .5, .25, .25, and then .25 for ever.
  EXPECT_NEAR((*chances)[0], 0.5, 1e-9);
  EXPECT_NEAR((*chances)[1], 1 - 0.5 * 0.75, 1e-9);
  EXPECT_NEAR((*chances)[2], 1 - 0.5 * 0.75 * 0.75 * 0.75, 1e-9);
}

TEST(PredictorFileTest, CertaintyStaysANumber) {
  const auto file = ParsePredictorFile(FileWith(
      R"({"kind":"survival","classes":{"a":{"steps":[2,4],"hazard":[0,1]}},"default":"a"})"));
  ASSERT_TRUE(file.ok()) << file.status();
  SignalFeatures features({});
  features.Add({});
  const EndLogits logits = file->model->Step({features, "a"}, {});
  EXPECT_NEAR(logits[0], std::log(1e-9), 1e-6) << "nothing ends at step 2";
  EXPECT_NEAR(logits[1], -std::log(1e-9), 1e-6) << "everything ends at step 3";
}

TEST(PredictorFileTest, AForeignFormatOrVersionIsNamed) {
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("found '{}'"));
  EXPECT_THAT(ErrorOf(SealJson("baton-probe", 1, "{}")), HasSubstr("found 'baton-probe'"));
  EXPECT_THAT(ErrorOf(SealJson(kPredictorFormat, 9, "{}")),
              HasSubstr("found '9' and expected version 1"));
}

TEST(PredictorFileTest, ADamagedFileIsRefused) {
  std::string text = FileWith(kSurvival);
  const std::string whole = text;
  text[text.find("0.25")] = '1';
  EXPECT_THAT(ErrorOf(text), HasSubstr("SHA-256"));
  for (size_t size = 0; size + 1 < whole.size(); size += 7) {
    EXPECT_FALSE(ParsePredictorFile(whole.substr(0, size)).ok()) << size;
  }
}

TEST(PredictorFileTest, ErrorsSayWhereAndWhat) {
  EXPECT_THAT(ErrorOf(FileWith(R"({"kind":"oracle"})")),
              HasSubstr("body.model.kind is \"oracle\"; expected survival"));
  EXPECT_THAT(ErrorOf(FileWith(R"({"kind":"survival","classes":{},"default":"a"})")),
              HasSubstr("body.model.default is \"a\"; expected the name of one of the classes"));
  EXPECT_THAT(
      ErrorOf(FileWith(
          R"({"kind":"survival","classes":{"a":{"steps":[1],"hazard":[1.5]}},"default":"a"})")),
      HasSubstr("body.model.classes.a.hazard"));
  EXPECT_THAT(ErrorOf(FileWith(kSurvival, "", R"("features":["x"],"mean":[0],"scale":[1])")),
              HasSubstr("body.features names 'x'"));
  EXPECT_THAT(ErrorOf(FileWith(kSurvival, "", R"("features":["probe[0]"],"mean":[0],"scale":[1])")),
              HasSubstr("a probe with 0 directions"));
  EXPECT_THAT(ErrorOf(FileWith(kSurvival, "", R"("features":["lo"],"mean":[0],"scale":[0])")),
              HasSubstr("body.scale"));
  EXPECT_THAT(
      ErrorOf(FileWith(R"({"kind":"logistic","weights":"AAAA","bias":[0,0,0,0,0,0,0,0,0,0]})", "",
                       R"("features":["lo"],"mean":[0],"scale":[1])")),
      HasSubstr("body.model.weights holds 3 bytes"));
}

TEST(PredictorFileTest, ATreeThatNeverEndsIsRefused) {
  // One node, whose children are itself.
  const std::string tree = R"({"f":"AAA=","t":"AAAAAAAAAAA=","l":"AAA=","r":"AAA="})";
  EXPECT_THAT(ErrorOf(FileWith(R"({"kind":"trees","base":[0,0,0,0,0,0,0,0,0,0],"bins":[[)" + tree +
                                   "],[],[],[],[],[],[],[],[],[]]}",
                               "", R"("features":["lo"],"mean":[0],"scale":[1])")),
              HasSubstr("body.model.bins[0][0]: node 0 of 1 has the children 0 and 0"));
}

TEST(PredictorFileTest, AMissingFileIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadPredictorFile("/nowhere/eos_predictor.json").status()));
}

}  // namespace
}  // namespace baton
