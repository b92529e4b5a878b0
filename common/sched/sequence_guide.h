#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace baton {

// Where one answer is in the grammar that it follows: which ids may be drawn next. The engine's
// thread calls Prepare, Take and the questions; who runs the step calls Mask, also from several
// threads at once. Between Prepare and the end of the step that draws, nothing is taken.
class SequenceGuide {
 public:
  virtual ~SequenceGuide() = default;

  // Has the mask of the next draw worked out, elsewhere. Does nothing when it is or was.
  virtual void Prepare() = 0;
  // Whether that takes longer than others should wait for.
  virtual bool holds_up() const = 0;

  // The ids that may be drawn next: bit id % 32 of word id / 32; never none. Waits until they are
  // known. Valid until Take.
  virtual std::span<const uint32_t> Mask() = 0;
  // Whether the last mask had EOS ids only.
  virtual bool only_end() const = 0;
  // Why the answer cannot go on, where its grammar costs too much: INVALID_ARGUMENT. What was drawn
  // by a mask that failed counts for nothing.
  virtual absl::Status status() const = 0;

  // Goes on by the token that was drawn.
  virtual void Take(TokenId token) = 0;
};

}  // namespace baton
