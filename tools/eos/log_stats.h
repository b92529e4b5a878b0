#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/eos/eos_row_reader.h"
#include "common/eos/log_parts.h"
#include "tools/eos/distributions.h"

namespace baton {

// What is said of answers and their ends, over any number of logs. It is fed row by row and keeps
// a few numbers of each request that has not ended, and beside them only distributions.
class LogStats final {
 public:
  // Each log has its own requests: an id in another log is another request.
  absl::Status ReadLog(const LogFiles& log);
  void Take(const EosLogRow& row);
  void EndLog();

  // The one that had the most tokens of those that ended.
  struct Longest {
    std::string request_id;
    int32_t tokens = 0;
    FinishReason reason = FinishReason::kNone;
  };

  int64_t logs() const { return logs_; }
  int64_t rows() const { return rows_; }
  // Sentences about last lines without an end, which are left out.
  const std::vector<std::string>& rests() const { return rests_; }
  int64_t unreadable() const { return unreadable_; }  // lines that are no rows
  int64_t requests() const { return requests_; }
  int64_t open() const { return requests_ - lengths_.moments().count(); }
  // How many ended for this reason; all of them: kNone.
  int64_t ended(FinishReason reason) const;
  // Ended by EOS, or under an ignore policy went on after the step at which they would have.
  int64_t natural() const { return natural_lengths_.moments().count(); }
  int64_t censored() const { return lengths_.moments().count() - natural(); }
  // Requests under `honor` that ran to their limit (`length`) and were then longer than 99 of 100
  // natural answers. Without a natural answer there is nothing to compare with, and none counts.
  int64_t runaways() const;

  const Lengths& lengths() const { return lengths_; }                  // of all that ended
  const Lengths& natural_lengths() const { return natural_lengths_; }  // up to natural ends
  const Probabilities& prob_at_stop() const { return prob_at_stop_; }  // eos_prob, by stop_eos
  const Probabilities& mean_probs() const { return mean_probs_; }      // eos_prob of a request
  const Probabilities& max_probs() const { return max_probs_; }        // likewise
  const MeanAndMax& probs() const { return probs_; }                   // eos_prob of rows
  const MeanAndMax& entropies() const { return entropies_; }           // of rows
  const Longest& longest() const { return longest_; }

 private:
  struct Request {
    int32_t step = 0;
    MeanAndMax probs;
  };
  void Finish(const EosLogRow& row, const Request& request);

  // Of the log that is read, by request id and index: each of several answers counts by itself.
  absl::flat_hash_map<std::pair<std::string, int32_t>, Request> open_;
  int64_t logs_ = 0;
  int64_t rows_ = 0;
  int64_t unreadable_ = 0;
  std::vector<std::string> rests_;
  int64_t requests_ = 0;
  std::map<FinishReason, int64_t> ended_;
  Lengths lengths_, natural_lengths_;
  Lengths limited_lengths_;  // under `honor`, of those that ended by their limit
  Probabilities prob_at_stop_, mean_probs_, max_probs_;
  MeanAndMax probs_, entropies_;
  Longest longest_;
};

}  // namespace baton
