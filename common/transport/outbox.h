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

// What a push still has to say, cut into messages: first pieces, then the commit. A progress note
// travels only when there is nothing else. Not thread-safe.
class Outbox final {
 public:
  // `blocks` reads the sources, and outlives this.
  explicit Outbox(const BlockAccess* blocks = &HostBlocks()) : access_(blocks) {}

  void Add(const std::vector<KvSource>& blocks);
  void Note(int32_t computed_tokens) { progress_ = PushProgressNote{computed_tokens}; }
  void Commit(PushCommitment commitment) { commit_ = std::move(commitment); }
  void Clear();

  // The next message, pieces with their checksum; empty when there is nothing to say now. An error
  // when a source cannot be read: the push is over then.
  absl::StatusOr<std::optional<OutboxItem>> Next();

 private:
  // The next piece of blocks_.front(), and where its bytes lie.
  absl::StatusOr<KvPiece> NextPiece();
  ConstByteParts TakeParts();

  const BlockAccess* const access_;
  std::deque<KvSource> blocks_;
  size_t part_ = 0;         // of blocks_.front(), where the next piece begins
  size_t part_offset_ = 0;  // in that part
  int64_t offset_ = 0;      // in the block
  std::optional<PushProgressNote> progress_;
  std::optional<PushCommitment> commit_;
};

}  // namespace baton
