#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/block_access.h"
#include "common/transport/kv_transport.h"

namespace baton {

// A sign of life: so many tokens of the prompt are computed.
struct PushProgressNote {
  int32_t computed_tokens = 0;
};
using OutboxItem = std::variant<KvPiece, PushProgressNote, PushCommitment>;

// A piece whose bytes have yet to be read.
struct UnreadPiece {
  int32_t ordinal = 0;
  int64_t offset = 0;  // of the first byte in the block
  ConstByteParts parts;
};
using UnreadItem = std::variant<UnreadPiece, PushProgressNote, PushCommitment>;

// Reads the bytes of a piece, which may take as long as a copy from a device does, so no lock
// should be held. An error when they cannot be read: the push is over then.
absl::StatusOr<OutboxItem> ReadItem(UnreadItem item, const BlockAccess& blocks);

// What a push still has to say, cut into messages: first pieces, then the commit. A progress note
// travels only when there is nothing else, and never behind the commit, which is the last message.
// Not thread-safe.
class Outbox final {
 public:
  void Add(const std::vector<KvSource>& blocks);
  void Note(int32_t computed_tokens);
  void Commit(PushCommitment commitment);
  void Clear();

  // What the next message is of; empty when there is nothing to say now.
  std::optional<UnreadItem> Next();

 private:
  // The next piece of blocks_.front(), and where its bytes lie.
  UnreadPiece NextPiece();
  ConstByteParts TakeParts();

  std::deque<KvSource> blocks_;
  size_t part_ = 0;         // of blocks_.front(), where the next piece begins
  size_t part_offset_ = 0;  // in that part
  int64_t offset_ = 0;      // in the block
  std::optional<PushProgressNote> progress_;
  std::optional<PushCommitment> commit_;
  bool ends_ = false;  // the commit was added
};

}  // namespace baton
