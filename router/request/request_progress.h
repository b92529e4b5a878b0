#pragma once

#include <cstddef>
#include <memory>

#include "baton/worker/v1/generation.pb.h"
#include "common/base/clock.h"
#include "common/trace/trace_context.h"
#include "router/edge/request_spec.h"
#include "router/request/accepted_output.h"
#include "router/workers/prefix_hints.h"

namespace baton {

struct FlowContext;

// What a request is and how far it has come, for those who place it and run it. Refers to its
// RequestFlow, which outlives it.
struct RequestProgress {
  const RequestSpec& spec;
  const AcceptedOutput& output;
  base::Instant arrived;
  bool logged = false;     // the EOS log wants its signals
  bool watched = false;    // the page wants these and its estimates
  int32_t score_from = 0;  // the prompt's next token without a score; 0: none is to have one
  const TraceContext* trace = nullptr;  // of the attempt that is opened; null: it is not traced
};

// What a worker is to generate from here on. The caller adds what differs between attempts.
worker::v1::Generation GenerationOf(const RequestProgress& progress, const FlowContext& context);

// The prompt and the first `generated` tokens, as workers' prefix caches may hold them. Null when
// nothing depends on that, because all prompts go to prefill workers or none does.
std::shared_ptr<const PrefixChain> PrefixOf(const RequestProgress& progress, size_t generated,
                                            const FlowContext& context);

}  // namespace baton
