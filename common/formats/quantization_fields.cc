#include "common/formats/quantization_fields.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr int64_t kLargestGroup = 1 << 20;  // no row has more columns
constexpr int64_t kLargestBlock = 1 << 12;  // a side of a block with one scale

}  // namespace

void RefuseUnless(JsonReader& reader, const char* key, bool holds, const std::string& expected) {
  if (!holds) reader.Fail(key, expected);
}

int32_t ReadBits(JsonReader& reader, const char* key, bool only_four) {
  const int64_t bits = reader.Int(key, 1, 64, std::nullopt);
  if (reader.status().ok() && bits != 4 && (bits != 8 || only_four)) {
    reader.Fail(key, only_four ? "4" : "4 or 8");
  }
  return static_cast<int32_t>(bits);
}

int64_t ReadGroup(JsonReader& reader) {
  const int64_t group = reader.Int("group_size", -1, kLargestGroup, std::nullopt);
  if (group == -1) return 0;
  if (reader.status().ok() && (group == 0 || group % 16 != 0)) {
    reader.Fail("group_size", "-1 for one scale per row, or a multiple of 16");
  }
  return group;
}

void ReadBlock(JsonReader& reader, const char* key, const nlohmann::json& object,
               QuantizationConfig& config) {
  const auto found = object.find(key);
  const auto side = [](const nlohmann::json& value) {
    return value.is_number_integer() && value >= 1 && value <= kLargestBlock;
  };
  if (found == object.end() || !found->is_array() || found->size() != 2 || !side((*found)[0]) ||
      !side((*found)[1])) {
    return reader.Fail(key, absl::StrCat("the rows and columns of a block, as in [128, 128], each ",
                                         "at most ", kLargestBlock));
  }
  config.block_rows = (*found)[0];
  config.block_cols = (*found)[1];
}

}  // namespace baton
