// What a client is told of its guide.
#include "router/edge/guide_choice.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/guide/guide_compiler.h"
#include "tests/fakes/byte_tokenizer.h"
#include "tests/fakes/no_room_for_stacks.h"

namespace baton {
namespace {

TEST(GuideChoiceTest, WhatCannotBeCompiledNowMayBeSentAgain) {
  const auto tokenizer =
      std::make_shared<ByteTokenizer>(std::vector<std::string>{}, std::vector<std::string>{"</s>"});
  GuideCompiler guides(tokenizer,
                       {.width = tokenizer->vocab_size(), .eos_ids = {tokenizer->eos()}});
  const GuideSpec guide{GuideKind::kRegex, "a+"};
  EXPECT_TRUE(CheckGuide({GuideKind::kRegex, "b"}, &guides).ok()) << "there is a vocabulary";
  {
    const NoRoomForStacks none;
    const absl::Status status = CheckGuide(guide, &guides);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(ReasonOf(status), Reason::kQueueFull) << "FULL is a word among routers and workers";
    EXPECT_EQ(DetailOf(status).field, "spec.guided_regex");
    EXPECT_TRUE(DetailOf(status).retry_after.has_value());
  }
  EXPECT_TRUE(CheckGuide(guide, &guides).ok());
}

}  // namespace
}  // namespace baton
