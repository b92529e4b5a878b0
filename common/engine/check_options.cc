#include "common/engine/check_options.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

absl::Status CheckProposals(const EngineOptions& options) {
  const NgramLengths& ngrams = options.proposal_ngrams;
  if (options.proposals.most > 0 && options.proposals.batch < 1) {
    return absl::InvalidArgumentError(absl::StrCat("proposals for steps of ",
                                                   options.proposals.batch,
                                                   " sequences and ids; expected at least 1"));
  }
  if (options.proposals_from != nullptr && options.proposals.most == 0) {
    return absl::InvalidArgumentError(
        "proposals of 0 ids from a source; expected at least 1, or no source");
  }
  if (options.proposals.most < 0 || options.proposals.most > kMaxProposals) {
    return absl::InvalidArgumentError(absl::StrCat("proposals of ", options.proposals.most,
                                                   " ids; expected 0 to ", kMaxProposals));
  }
  if (ngrams.shortest < 1 || ngrams.longest < ngrams.shortest) {
    return absl::InvalidArgumentError(
        absl::StrCat("proposals by n-grams of ", ngrams.shortest, " to ", ngrams.longest,
                     " ids; expected at least 1, and no more than the longest"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEngineOptions(const EngineOptions& options, const KvCache& kv) {
  const auto at_least_one = [](std::string_view name, int64_t value) {
    if (value >= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), " is ", value, "; expected at least 1"));
  };
  BATON_RETURN_IF_ERROR(at_least_one("max_model_len", options.max_model_len));
  BATON_RETURN_IF_ERROR(at_least_one("max_num_seqs", options.max_num_seqs));
  BATON_RETURN_IF_ERROR(at_least_one("max_prefill_tokens", options.max_prefill_tokens));
  BATON_RETURN_IF_ERROR(at_least_one("max_num_batched_tokens", options.max_num_batched_tokens));
  BATON_RETURN_IF_ERROR(at_least_one("max_num_queued_reqs", options.max_num_queued_reqs));
  BATON_RETURN_IF_ERROR(at_least_one("the model's vocab_size", options.vocab_size));
  BATON_RETURN_IF_ERROR(at_least_one("the KV pool's number of blocks", kv.num_blocks()));
  if (options.swap_blocks < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a swap space of ", options.swap_blocks, " blocks; expected 0 or more"));
  }
  BATON_RETURN_IF_ERROR(CheckProposals(options));
  if (options.prefill_batch_wait < base::Duration::zero()) {
    return absl::InvalidArgumentError("prefill_batch_wait is negative; expected 0 or more");
  }
  if (options.stall_timeout <= base::Duration::zero()) {
    return absl::InvalidArgumentError("stall_timeout is not positive; expected more than 0");
  }
  return absl::OkStatus();
}

}  // namespace baton
