#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/ids.h"

namespace baton {

// The rule no_repeat_ngram_size of one sequence: which ids would complete an n-gram that its
// history already holds. It remembers what followed every n - 1 tokens in a row, its contexts, so
// that a token costs a few look-ups however long the history is, and a draw as many as it bans.
// Memory grows with the history, by some 120 bytes per token.
//
// Contexts are found by a rolling hash and then compared token by token, so nothing is banned by
// accident. `hash_base` only decides how fast they are found. By default it comes from the address
// of the index, which a client cannot know, so nobody can write a text whose contexts collide.
class NgramIndex {
 public:
  // 0 turns the rule off. At most RequestLimit::kNgram, because contexts are compared.
  explicit NgramIndex(int32_t n) : NgramIndex(n, reinterpret_cast<uintptr_t>(this)) {}
  NgramIndex(int32_t n, uint64_t hash_base);

  // The ids that cannot be drawn after `history`, each once, in no order. `history` begins with
  // that of the last call; what was appended is indexed here, so a sequence that never draws costs
  // nothing. The span is valid until the next call.
  std::span<const TokenId> BannedAfter(std::span<const TokenId> history);

  // The same for a history whose last `given` ids may turn out not to be: one answer after those
  // before them, and one after each of them. Then they are forgotten. The spans are valid until the
  // next call.
  std::vector<std::span<const TokenId>> BannedAlong(std::span<const TokenId> history, size_t given);

  // Contexts and ids looked at so far.
  int64_t work() const { return work_; }

 private:
  static constexpr int32_t kNone = -1;
  struct Context {
    int32_t end = 0;            // it stood before this index of the history first
    int32_t same_hash = kNone;  // another context with its hash
    int32_t last_follower = kNone;
    uint64_t hash = 0;
  };
  struct Follower {
    TokenId id = 0;
    int32_t context = kNone;
    int32_t before = kNone;  // another one of the same context
  };
  // How far the index is. Contexts and followers are only added, so their numbers tell which ones
  // there were.
  struct Place {
    size_t seen = 0;
    uint64_t hash = 0;
    int32_t current = kNone;
    size_t contexts = 0, followers = 0;
  };

  void Append(std::span<const TokenId> history);
  void Roll(std::span<const TokenId> history);
  int32_t FindOrAdd(std::span<const TokenId> history, size_t end);
  void AddFollower(int32_t context, TokenId id);
  // Adds what is banned now to `banned_`.
  void AddBanned();
  Place Here() const;
  void GoBackTo(const Place& place);

  const int32_t n_;
  const size_t length_;            // of a context
  const uint64_t base_, leaving_;  // of the hash, and its power that the oldest token has
  size_t seen_ = 0;                // tokens of the history
  uint64_t hash_ = 0;              // of the last `length_` tokens
  int32_t current_ = kNone;        // the context that these are
  std::vector<Context> contexts_;
  std::vector<Follower> followers_;
  absl::flat_hash_map<uint64_t, int32_t> by_hash_;  // the newest context with a hash
  absl::flat_hash_set<uint64_t> context_and_id_;    // what `followers_` holds
  std::vector<TokenId> banned_;
  int64_t work_ = 0;
};

}  // namespace baton
