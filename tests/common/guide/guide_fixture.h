#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/guide/guide_compiler.h"
#include "tests/fakes/byte_tokenizer.h"

namespace baton {

// A compiler over a vocabulary of bytes, a few words and EOS.
class GuideTest : public ::testing::Test {
 protected:
  static constexpr int32_t kPadding = 21;  // logits are wider than the vocabulary

  GuideTest() {
    options_.width = tokenizer_->vocab_size() + kPadding;
    options_.eos_ids = {tokenizer_->eos()};
    compiler_ = std::make_unique<GuideCompiler>(tokenizer_, options_);
  }

  using Begun = absl::StatusOr<std::shared_ptr<SequenceGuide>>;
  static bool Always() { return true; }

  // Begins an answer; what becomes of it is told once it has begun.
  std::future<Begun> BeginLater(GuideKind kind, std::string text,
                                std::vector<TokenId> generated = {},
                                std::function<bool()> wanted = Always) {
    auto told = std::make_shared<std::promise<Begun>>();
    auto begun = told->get_future();
    EXPECT_TRUE(compiler_->Begin({.guide = {kind, std::move(text)},
                                  .generated = std::move(generated),
                                  .wanted = std::move(wanted),
                                  .begun = [told](auto state) { told->set_value(state); }}));
    return begun;
  }
  Begun Begin(GuideKind kind, std::string text, std::vector<TokenId> generated = {}) {
    return BeginLater(kind, std::move(text), std::move(generated)).get();
  }
  std::shared_ptr<SequenceGuide> MustBegin(GuideKind kind, std::string text,
                                           std::vector<TokenId> generated = {}) {
    auto begun = Begin(kind, std::move(text), std::move(generated));
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.ok() ? *begun : nullptr;
  }

  static bool Allows(SequenceGuide& guide, TokenId id) {
    if (const auto forced = guide.Forced().ids; !forced.empty()) return forced.front() == id;
    const auto words = guide.Mask();
    return (words[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
  }
  std::vector<TokenId> AllowedBy(SequenceGuide& guide) const {
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < options_.width; ++id) {
      if (Allows(guide, id)) ids.push_back(id);
    }
    return ids;
  }
  // Whether the guide lets `text` be written byte by byte, and then be ended.
  bool Accepts(GuideKind kind, const std::string& guide, const std::string& text) {
    const auto state = MustBegin(kind, guide);
    for (const char c : text) {
      const auto byte = static_cast<TokenId>(static_cast<unsigned char>(c));
      if (!Allows(*state, byte)) return false;
      state->Take(byte);
      state->Forced();
      EXPECT_TRUE(state->status().ok()) << state->status();
    }
    return Allows(*state, tokenizer_->eos());
  }
  // An answer drawn at random from what is allowed, of at most `most` tokens.
  std::string Wander(SequenceGuide& guide, uint32_t seed, int most) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < most; ++i) {
      const std::vector<TokenId> ids = AllowedBy(guide);
      if (!guide.status().ok()) break;
      EXPECT_FALSE(ids.empty());
      const TokenId id = ids[random() % ids.size()];
      if (id == tokenizer_->eos()) break;
      text += tokenizer_->TokenBytes(id);
      guide.Take(id);
    }
    return text;
  }

  std::shared_ptr<ByteTokenizer> tokenizer_ =
      std::make_shared<ByteTokenizer>(std::vector<std::string>{"{\"", "\":", " the", "true", "12"},
                                      std::vector<std::string>{"</s>", "<|tool|>"});
  GuideCompilerOptions options_;
  std::unique_ptr<GuideCompiler> compiler_;
};

}  // namespace baton
