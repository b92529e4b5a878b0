// Descriptions with several groups of modules, each of its own kind of integers.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/formats/quantization_json.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Format = QuantizationConfig::Format;

// Layers of 4 bits and an output projection of 8.
json TwoKinds() {
  json config = CompressedTensors();
  config["ignore"] = json::array();
  json& groups = config["config_groups"];
  groups["group_1"] = groups["group_0"];
  groups["group_1"]["targets"] = {"lm_head"};
  groups["group_1"]["weights"].update({{"num_bits", 8}, {"group_size", 32}});
  return config;
}

TEST(SeveralKindsConfigTest, ReadsSeveralKindsOfIntegers) {
  const QuantizationConfig config = Read(TwoKinds());
  EXPECT_EQ(config.name(), "w4g128+w8g32");
  EXPECT_EQ(config.KindOf("lm_head.weight").name(), "w8g32");
  EXPECT_EQ(config.KindOf("model.layers.3.mlp.up_proj.weight").name(), "w4g128");
  EXPECT_EQ(config.output, QuantizationConfig::Output::kIntegers);

  json formats = TwoKinds();
  formats["format"] = "mixed-precision";
  EXPECT_THAT(QuantizationRefusal(formats), HasSubstr("mixed-precision"));
  GroupOf(formats)["format"] = "pack-quantized";
  formats["config_groups"]["group_1"]["format"] = "int-quantized";
  EXPECT_EQ(Read(formats).KindOf("lm_head.weight").format, Format::kIntQuantized);
  EXPECT_EQ(Read(formats).KindOf("model.layers.3.mlp.up_proj.weight").format,
            Format::kPackQuantized);

  json rounded = TwoKinds();
  rounded["config_groups"]["group_1"]["input_activations"] = InputArgs("int", false);
  EXPECT_THAT(Read(rounded).Remarks(), ElementsAre(HasSubstr("its input_scale is not used")));
}

TEST(SeveralKindsConfigTest, TheClosestTargetSaysTheKind) {
  json config = TwoKinds();
  config["config_groups"]["group_1"]["targets"] = {"re:.*down_proj", "lm_head"};
  EXPECT_EQ(Read(config).KindOf("model.layers.0.mlp.down_proj.weight").name(), "w8g32");
  GroupOf(config)["targets"] = {"Linear", "model.layers.0.mlp.down_proj"};
  EXPECT_EQ(Read(config).KindOf("model.layers.0.mlp.down_proj.weight").name(), "w4g128");
  EXPECT_EQ(Read(config).KindOf("model.layers.1.mlp.down_proj.weight").name(), "w8g32");

  GroupOf(config)["targets"] = {"re:model.layers.1"};
  EXPECT_EQ(Read(config).FindKind("model.layers.0.mlp.up_proj.weight").status().code(),
            absl::StatusCode::kNotFound);
  const auto two = Read(config).FindKind("model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(two.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(two.status().message()),
              AllOf(HasSubstr("model.layers.1.mlp.down_proj"), HasSubstr("different kinds")));
}

TEST(SeveralKindsConfigTest, LooksAtTargetsOnlyWhereThereAreSeveralKinds) {
  json config = CompressedTensors();
  GroupOf(config)["targets"] = {"re:(?!lm_head).*"};
  EXPECT_EQ(Read(config).name(), "w4g128");
  config["config_groups"]["group_1"] = GroupOf(config);
  EXPECT_EQ(Read(config).name(), "w4g128");
  config["config_groups"]["group_1"]["weights"]["num_bits"] = 8;
  EXPECT_THAT(QuantizationRefusal(config), HasSubstr("(?!lm_head)"));
}

TEST(SeveralKindsConfigTest, BoundsGroupsOfSeveralKinds) {
  json config = TwoKinds();
  for (int i = 2; i < 64; ++i) {
    config["config_groups"]["group_" + std::to_string(i)] = GroupOf(config);
  }
  EXPECT_EQ(Read(config).name(), "w4g128+w8g32");
  json more = config;
  more["config_groups"]["one_more"] = GroupOf(config);
  EXPECT_THAT(QuantizationRefusal(more), HasSubstr("at most 64"));
  more["config_groups"]["group_1"] = GroupOf(config);  // leaves one kind
  EXPECT_EQ(Read(more).name(), "w4g128");
  json patterns = json::array();
  for (int i = 0; i < 60; ++i) patterns.push_back("re:.*a_name_of_forty_characters_that_is_long");
  for (const char* group : {"group_2", "group_3"}) {
    config["config_groups"][group]["targets"] = patterns;
  }
  EXPECT_THAT(QuantizationRefusal(config), HasSubstr("4096 instructions"));
}

}  // namespace
}  // namespace baton::test
