#include "tools/planner/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"

namespace baton::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

nlohmann::json Description() {
  return nlohmann::json::parse(R"({
    "schema": "baton.hardware/1", "name": "box", "device": "cuda", "devices": 4,
    "memory_bytes": 24e9, "memory_bandwidth": 3e11, "bandwidth_share": 0.8,
    "flops": {"bfloat16": 1e14}, "flops_share": 0.5, "step_us": 100,
    "handoff_bytes_per_s": 1e9, "link": {"bytes_per_s": 2e10, "latency_us": 30},
    "power": {"idle_watts": 10, "busy_watts": 70}, "price_per_hour": 0.5})");
}

std::string ErrorOf(const nlohmann::json& file) {
  const auto read = ParseHardware(file.dump(), "box.json");
  EXPECT_FALSE(read.ok());
  return std::string(read.status().message());
}

TEST(HardwareTest, ReadsWhatAFileSays) {
  const auto read = ParseHardware(Description().dump(), "box.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "box");
  EXPECT_EQ(read->devices, 4);
  EXPECT_EQ(read->memory_share, 0.9);  // when nobody says
  EXPECT_EQ(read->flops.at("bfloat16"), 1e14);
  EXPECT_EQ(read->link->latency_us, 30);
  EXPECT_EQ(read->power->busy_watts, 70);
  EXPECT_EQ(read->price_per_hour, 0.5);
}

TEST(HardwareTest, LinkPowerAndPriceMayBeLeftOut) {
  nlohmann::json file = Description();
  for (const char* key : {"link", "power", "price_per_hour"}) file.erase(key);
  const auto read = ParseHardware(file.dump(), "box.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->link || read->power || read->price_per_hour);
}

TEST(HardwareTest, RefusesUnknownKeysAndNamesThose) {
  nlohmann::json file = Description();
  file["bandwith"] = 1;
  EXPECT_THAT(ErrorOf(file), AllOf(HasSubstr("box.json: found the unknown key bandwith"),
                                   HasSubstr("memory_bandwidth")));
  file = Description();
  file["link"]["speed"] = 1;
  EXPECT_THAT(ErrorOf(file), HasSubstr("box.json.link: found the unknown key speed"));
  file = Description();
  file["flops"]["int4"] = 1e15;
  EXPECT_THAT(ErrorOf(file), HasSubstr("box.json.flops: found the unknown key int4"));
}

TEST(HardwareTest, RefusesWhatNestsVeryDeeply) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  std::string text = Description().dump();
  text.replace(text.find("\"cuda\""), 6, deep);
  const absl::Status status = ParseHardware(text, "box.json").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("box.json: found"));
}

TEST(HardwareTest, RefusesWhatIsMissing) {
  for (const char* key :
       {"name", "device", "devices", "memory_bytes", "memory_bandwidth", "bandwidth_share", "flops",
        "flops_share", "step_us", "handoff_bytes_per_s"}) {
    nlohmann::json file = Description();
    file.erase(key);
    EXPECT_THAT(ErrorOf(file), HasSubstr(std::string("found no ") + key)) << key;
  }
  nlohmann::json file = Description();
  file["power"].erase("idle_watts");
  EXPECT_THAT(ErrorOf(file), HasSubstr("box.json.power: found no idle_watts"));
  file = Description();
  file.erase("schema");
  EXPECT_THAT(ErrorOf(file), HasSubstr("baton.hardware/1"));
}

TEST(HardwareTest, RefusesNumbersThatMakeNoSense) {
  const auto error = [](const char* key, const nlohmann::json& value) {
    nlohmann::json file = Description();
    file[key] = value;
    return ErrorOf(file);
  };
  EXPECT_THAT(error("memory_bytes", -1), HasSubstr("box.json.memory_bytes: found -1"));
  EXPECT_THAT(error("bandwidth_share", 1.5), HasSubstr("a number from 0.01 to 1"));
  EXPECT_THAT(error("step_us", "fast"), HasSubstr("found \"fast\""));
  EXPECT_THAT(error("devices", 2.5), HasSubstr("a whole number"));
  EXPECT_THAT(error("device", "tpu"), HasSubstr("cuda or cpu"));
  EXPECT_THAT(error("flops", nlohmann::json::object()), HasSubstr("operations per second"));
  EXPECT_THAT(error("link", 5), HasSubstr("an object"));
}

TEST(HardwareTest, FilesThatShipAreRead) {
  for (const char* name : {"h100-sxm-80gb", "a100-sxm-80gb", "l4"}) {
    const auto read =
        ReadHardware(std::string(BATON_SOURCE_DIR "/deploy/hardware/") + name + ".json");
    EXPECT_TRUE(read.ok()) << read.status();
  }
  EXPECT_EQ(ReadHardware("/absent.json").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::planner
