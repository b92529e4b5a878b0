#include "common/formats/json_reader.h"

#include <string>

#include "common/formats/shallow_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

std::string NestedObject(size_t levels) {
  return R"({"a":)" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

std::string WhatIsFound(std::string_view line) {
  return std::string(ParseJsonObjectLine(line).status().message());
}

TEST(ParseShallow, KeepsNothingThatLiesTooDeep) {
  EXPECT_FALSE(ParseShallow(NestedObject(kMaxJsonDepth)).too_deep);
  EXPECT_TRUE(ParseShallow(NestedObject(kMaxJsonDepth + 1)).too_deep);
  EXPECT_FALSE(ParseShallow("[[1]]", 2).too_deep);
  const auto deep = ParseShallow(NestedObject(200'000));
  EXPECT_TRUE(deep.too_deep);
  EXPECT_LT(deep.value.dump().size(), 1000U);
  EXPECT_TRUE(ParseShallow(NestedObject(200'000).substr(100'000)).value.is_discarded());
}

TEST(ParseShallow, ATextWithANulIsNone) {
  EXPECT_TRUE(ParseShallow(std::string_view("{}\0", 3)).value.is_discarded());
  EXPECT_TRUE(ParseShallow("{}").value.is_object());
}

TEST(ParseJsonObjectLine, SaysWhatIsThereInPlaceOfAnObject) {
  const auto parsed = ParseJsonObjectLine(R"({"a": 1})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)["a"], 1);
  EXPECT_EQ(WhatIsFound("[1]"), "no JSON object");
  EXPECT_EQ(WhatIsFound(R"({"a": 1)"), "no JSON object");
  EXPECT_EQ(WhatIsFound(std::string_view("{\"a\": 1}\0{", 10)), "a byte 0");
  EXPECT_EQ(WhatIsFound(NestedObject(200'000)), "JSON that nests more than 100 levels");
}

TEST(ShownJson, IsShortPrintableText) {
  EXPECT_EQ(ShownJson({1, "é\n"}), "[1,\"\\u00e9\\n\"]");
  EXPECT_EQ(ShownJson(std::string(100, 'x')), "\"" + std::string(79, 'x') + "…");
}

}  // namespace
}  // namespace baton
