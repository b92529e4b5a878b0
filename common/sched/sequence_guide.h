#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace baton {

// The ids that an answer has to go on with, none of which ends it. What comes behind any part of
// them is the rest of them, whoever asks and whenever: it depends on the tokens so far alone.
struct ForcedRun {
  std::span<const TokenId> ids;
  bool whole = true;  // behind them there is a choice, or the end; else there may be more of them
};

// Where one answer is in the grammar that it follows: which ids have to come or may be drawn next.
// The engine's thread calls Prepare, Forced, Take and the questions; who runs the step calls Mask,
// also from several threads at once. Between Prepare and the end of the step that draws, nothing is
// taken.
class SequenceGuide {
 public:
  virtual ~SequenceGuide() = default;

  // Has the ids that have to come and the mask behind them worked out, elsewhere: that is where the
  // grammar goes on by what was taken, too. Does nothing when
  // they are or were.
  virtual void Prepare() = 0;
  // Whether that takes longer than others should wait for.
  virtual bool holds_up() const = 0;
  // Whether Forced returns at once, and whether its last call took longer than others should wait.
  virtual bool knows_forced() const = 0;
  virtual bool took_long() const = 0;

  // What has to come next. Waits until that is known, which takes less than a mask. Valid until
  // Take.
  virtual ForcedRun Forced() = 0;
  // The ids that may be drawn behind those that have to come, which are a whole run: bit id % 32 of
  // word id / 32; never none. Waits until they are known. Valid until a token behind the run is
  // taken.
  virtual std::span<const uint32_t> Mask() = 0;
  // Whether nothing has to come and the last mask had EOS ids only.
  virtual bool only_end() const = 0;
  // Why the answer cannot go on here, where its grammar costs too much: INVALID_ARGUMENT, as far as
  // the last Forced or Mask knows. What was drawn by a mask that failed counts for nothing.
  virtual absl::Status status() const = 0;

  // Notes the token that was drawn, or that had to come. Takes no time: who commits a step does so
  // for everybody in it.
  virtual void Take(TokenId token) = 0;
};

}  // namespace baton
