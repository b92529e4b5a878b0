#include "common/formats/gguf/gguf_pre_tokenizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// llama.cpp reads these names as that of Llama 3.
TEST(GgufPreTokenizers, OtherNamesOfTheTokenizerOfLlama3GiveTheSame) {
  const auto describe = [](std::string_view name) {
    const GgufPreTokenizer* pre = FindGgufPreTokenizer(name);
    return pre == nullptr
               ? "unknown"
               : absl::StrCat(PreTokenizerJson(*pre), pre->ignore_merges, pre->adds_bos, pre->nfc);
  };
  for (const char* name : {"llama3", "llama-v3", "falcon3", "pixtral"}) {
    EXPECT_EQ(describe(name), describe("llama-bpe")) << name;
  }
  EXPECT_THAT(KnownGgufPreTokenizers(), AllOf(HasSubstr("falcon3"), HasSubstr("pixtral")));
  EXPECT_EQ(describe("falcon"), "unknown");
}

}  // namespace
}  // namespace baton
