#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/sched/sequence_guide.h"

namespace baton::sim {

// A made-up grammar: what may come next follows from its seed and the tokens so far. It mostly
// forces runs of tokens, sometimes an id of the request's stop set among them, and ends after a
// while.
class RandomGrammar {
 public:
  static constexpr TokenId kEos = 2;
  explicit RandomGrammar(uint64_t seed) : seed_(seed) {}

  std::vector<TokenId> Allowed(std::span<const TokenId> tokens) const {
    uint64_t hash = seed_;
    for (const TokenId token : tokens) hash = Mix(hash ^ static_cast<uint32_t>(token));
    if (tokens.size() > 4 + seed_ % 24) return {kEos};
    if (hash % 8 < 5) return {Text(hash)};  // forced
    std::vector<TokenId> ids;
    for (uint64_t i = 0; i < 2 + hash % 3; ++i) ids.push_back(Text(Mix(hash + i)));
    if (hash % 7 == 0) ids.push_back(kEos);
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    return ids;
  }
  static bool Forces(const std::vector<TokenId>& allowed) {
    return allowed.size() == 1 && allowed[0] != kEos;
  }
  static std::vector<uint32_t> MaskOf(const std::vector<TokenId>& allowed) {
    std::vector<uint32_t> words(16);
    for (const TokenId id : allowed)
      words[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
    return words;
  }

 private:
  static TokenId Text(uint64_t hash) { return 4 + static_cast<TokenId>((hash >> 20) % 490); }
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  const uint64_t seed_;
};

// Where one attempt of an answer is in it. Tells at most `most` forced ids at once.
class RandomGuide final : public SequenceGuide {
 public:
  RandomGuide(uint64_t seed, std::vector<TokenId> generated, size_t most)
      : grammar_(seed), taken_(std::move(generated)), most_(most) {}

  void Prepare() override {}
  bool holds_up() const override { return false; }
  bool knows_forced() const override { return true; }
  bool took_long() const override { return false; }
  ForcedRun Forced() override {
    const bool whole = Ahead();
    return {.ids = std::span<const TokenId>(ahead_).subspan(taken_.size()), .whole = whole};
  }
  std::span<const uint32_t> Mask() override {
    BATON_CHECK(Ahead()) << "a mask in the middle of a run";
    words_ = RandomGrammar::MaskOf(grammar_.Allowed(ahead_));
    return words_;
  }
  bool only_end() const override {
    return grammar_.Allowed(taken_) == std::vector<TokenId>{RandomGrammar::kEos};
  }
  absl::Status status() const override { return absl::OkStatus(); }
  void Take(TokenId token) override {
    BATON_CHECK(std::ranges::count(grammar_.Allowed(taken_), token) == 1) << token;
    taken_.push_back(token);
  }

 private:
  // Works out the answer with what is forced behind it, and whether that is all of it.
  bool Ahead() {
    ahead_ = taken_;
    while (ahead_.size() < taken_.size() + most_) {
      const std::vector<TokenId> allowed = grammar_.Allowed(ahead_);
      if (!RandomGrammar::Forces(allowed)) return true;
      ahead_.push_back(allowed[0]);
    }
    return !RandomGrammar::Forces(grammar_.Allowed(ahead_));
  }

  const RandomGrammar grammar_;
  std::vector<TokenId> taken_;
  const size_t most_;
  std::vector<TokenId> ahead_;
  std::vector<uint32_t> words_;
};

}  // namespace baton::sim
