#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/eos/log_parts.h"
#include "tools/sim/answers.h"

namespace baton::simulator {

// How the answers of an EOS log were drawn, which its rows do not say. It stands beside them: in
// the FILE.requests.jsonl of a router, and beside the rows.jsonl of `baton eos collect` in
// requests.jsonl.
class RecordedSampling final {
 public:
  // Reads what there is of the whole log, also where only some of its parts are named: the summary
  // of a request may stand beside the part behind that of its last row. What says nothing of a
  // request is passed over, and so are files that are not there; one that cannot be read is an
  // error of the disk.
  static absl::StatusOr<RecordedSampling> Read(const LogFiles& log);

  // Empty where it is not known, or said in two ways because an id came twice.
  std::optional<AnswerSampling> Of(const std::string& request_id) const;

 private:
  absl::Status ReadSummaries(const std::string& path);
  absl::Status ReadCollected(const std::string& path);
  void Take(std::string_view line);

  std::unordered_map<std::string, std::optional<AnswerSampling>> by_id_;
};

// INVALID_ARGUMENT where the predictor of `file` reads temperature or top_p, which are not known of
// `unknown` of the answers. A file that cannot be read is nobody's fault here.
absl::Status CheckSampling(const std::string& file, int64_t unknown, size_t answers);

}  // namespace baton::simulator
