#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/rpc/generation.h"
#include "common/sample/stop.h"
#include "common/text/text_stream.h"
#include "router/edge/request_spec.h"
#include "router/edge/served_model.h"

namespace baton {

// How a request ended, as the client is told.
struct OutputEnd {
  FinishReason reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;       // the EOS or stop id
  std::optional<std::string> stop_string;  // the one that matched
};

// The tokens of one request that the router accepted over all attempts, each index once and in
// order. It turns them into text and knows when they end the request. Not thread-safe.
class AcceptedOutput final {
 public:
  // Both must outlive this.
  AcceptedOutput(const RequestSpec& spec, const ServedModel& model);

  enum class Verdict {
    kNext,    // the index that was expected
    kKnown,   // accepted before, and the same token
    kGap,     // a later index: something was lost
    kDiffers  // accepted before, as another token
  };
  Verdict Judge(const PlacedToken& token) const;

  // What a token that was judged kNext adds to what the client gets.
  struct Addition {
    std::string text;
    // This token ends the request, whatever the worker says next.
    std::optional<OutputEnd> end;
  };
  Addition Accept(const PlacedToken& token);

  // Returns the text that is still held back when the request ends otherwise than by a stop string.
  std::string FinishText();

  const std::vector<TokenId>& ids() const { return ids_; }
  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  // The step, counted from 1, of the first end that the model wanted; under HONOR it is the end.
  std::optional<int32_t> natural_end_step() const { return natural_end_step_; }
  // The last step, counted from 1, that had `end_chance`; 0 if none had.
  int32_t end_chance_step() const { return end_chance_step_; }
  // A worker says so.
  void SeeNaturalEnd(std::optional<int32_t> step);

 private:
  const RequestSpec& spec_;
  const ServedModel& model_;
  std::vector<TokenId> ids_;
  TextStream text_;
  // The workers' own rules, made with the first token: by then the length is settled.
  std::optional<StopCriteria> stop_;
  std::optional<int32_t> natural_end_step_;
  int32_t end_chance_step_ = 0;
};

}  // namespace baton
