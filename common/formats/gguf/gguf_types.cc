#include "common/formats/gguf/gguf_types.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr int64_t kInt8 = 1;
constexpr int64_t kF16 = 2;
constexpr int64_t kF32 = 4;
constexpr int64_t kSuperBlock = 256;

// A block of the K types has a scale of its own for each group, made of one in fp16, the unit, and
// a small integer.
constexpr GgufTensorType kTypes[] = {
    {0, "F32", 1, 4},
    {1, "F16", 1, 2},
    {30, "BF16", 1, 2},
    {2, "Q4_0", 32, 18, {4, 32, false, kF16}},
    {3, "Q4_1", 32, 20, {4, 32, true, kF16}},
    {6, "Q5_0", 32, 22, {8, 32, false, kF16}},
    {7, "Q5_1", 32, 24, {8, 32, true, kF16}},
    {8, "Q8_0", 32, 34, {8, 32, false, kF16}},
    {12, "Q4_K", 256, 144, {4, 32, true, kInt8, kSuperBlock}},
    {13, "Q5_K", 256, 176, {8, 32, true, kInt8, kSuperBlock}},
    {14, "Q6_K", 256, 210, {8, 16, false, kInt8, kSuperBlock}},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
    {41, "Q1_0"},
};

}  // namespace

const GgufTensorType* FindGgufType(uint32_t id) {
  const auto* found = std::ranges::find(kTypes, id, &GgufTensorType::id);
  return found != std::end(kTypes) ? found : nullptr;
}

const GgufTensorType* FindGgufType(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &GgufTensorType::name);
  return found != std::end(kTypes) && found->readable() ? found : nullptr;
}

std::string ReadableGgufTypes() {
  std::string list;
  for (const GgufTensorType& type : kTypes) {
    if (!type.readable()) continue;
    absl::StrAppend(&list, list.empty() ? "" : ", ", std::string(type.name));
  }
  return list;
}

GgufForm JoinForms(std::span<const GgufTensorType* const> types) {
  GgufForm joined;
  for (const GgufTensorType* type : types) {
    const GgufForm& form = type->form;
    if (form.bits == 0) return {};
    if (joined.bits == 0) {
      joined = form;
      continue;
    }
    // Four bits hold integers with a sign or without one.
    const bool mixed = joined.bits == 4 && form.bits == 4 && joined.minimums != form.minimums;
    joined.bits = mixed ? 8 : std::max(joined.bits, form.bits);
    joined.group = std::min(joined.group, form.group);
    joined.minimums = joined.minimums || form.minimums;
    if (joined.unit != form.unit) {
      // Only fp32 holds the scales of both.
      joined.unit = 0;
      joined.scale_bytes = kF32;
    }
  }
  return joined;
}

double BytesPerWeight(const GgufForm& form) {
  if (form.bits == 0) return 2;
  const double numbers = form.minimums ? 2 : 1;  // of a group
  double bytes = form.bits / 8.0;
  bytes += numbers * static_cast<double>(form.scale_bytes) / static_cast<double>(form.group);
  if (form.unit > 0) bytes += numbers * static_cast<double>(kF16) / static_cast<double>(form.unit);
  return bytes;
}

double GpuBytesPerWeight(const GgufForm& form) {
  if (form.bits == 0) return 2;
  const int64_t scale = form.unit > 0 ? kF32 : form.scale_bytes;
  const int64_t of_group = scale + (form.minimums ? kF32 : 0);
  return form.bits / 8.0 + static_cast<double>(of_group) / static_cast<double>(form.group);
}

}  // namespace baton
