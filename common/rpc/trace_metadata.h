#pragma once

#include <optional>
#include <string>

#include "common/trace/trace_context.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"

namespace baton {

// The trace that a call says it belongs to; empty where it says nothing, or nothing well formed.
std::optional<TraceContext> TraceContextOf(const grpc::ServerContextBase& call);
// Tells the other end of a call which span it works for. Before the call begins.
void AddTraceContext(const TraceContext& context, grpc::ClientContext* call);

}  // namespace baton
