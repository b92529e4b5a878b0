#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/eos/eos_row_reader.h"

namespace baton {

// Checks what a schema cannot say of the rows of one log: that the figures of a row fit each other,
// and that the rows of a request are steps 1 to n, each once and in order, of which only the last
// one carries the end. Each of several answers to a request is one for itself here. Keeps a few
// numbers of each request that has not ended.
//
// An id may be used again after its request has ended; where it has not, as with a router that was
// killed, a row of step 1 begins another request. In a log whose first parts are not there, a
// request may also begin at a later step.
class RowCheck final {
 public:
  explicit RowCheck(bool begins_in_the_middle = false)
      : begins_in_the_middle_(begins_in_the_middle) {}

  // What is wrong with the row, as "KEY: found …, expected …"; empty when nothing is. Of a row that
  // is out of order the next ones are taken to follow it, so that one gap is one problem.
  std::string Take(const EosLogRow& row);

  int64_t requests() const { return requests_; }
  // Those whose first row here is not that of step 1, where this may be so.
  int64_t begun_before() const { return begun_before_; }
  // Those without a last row.
  int64_t open() const { return abandoned_ + static_cast<int64_t>(open_.size()); }

 private:
  struct Request {
    double began = 0;  // timestamp of the first row
    int32_t step = 0;
    int32_t attempt = 0;
    int32_t prompt_length = 0;
    std::optional<TokenId> eos_token_id;
    EosPolicy policy = EosPolicy::kHonor;
    std::optional<int32_t> natural_end_step;
  };
  static std::string CheckOrder(const Request& before, const EosLogRow& row);

  const bool begins_in_the_middle_;
  absl::flat_hash_map<std::pair<std::string, int32_t>, Request> open_;  // by request id and index
  int64_t begun_before_ = 0;
  int64_t requests_ = 0;
  int64_t abandoned_ = 0;  // open ones whose id was used again
};

}  // namespace baton
