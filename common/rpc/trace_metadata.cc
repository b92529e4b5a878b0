#include "common/rpc/trace_metadata.h"

#include <string_view>
#include <vector>

namespace baton {
namespace {

std::vector<std::string> ValuesOf(const grpc::ServerContextBase& call, std::string_view name) {
  std::vector<std::string> values;
  const auto [begin, end] = call.client_metadata().equal_range({name.data(), name.size()});
  for (auto it = begin; it != end; ++it) values.emplace_back(it->second.data(), it->second.size());
  return values;
}

}  // namespace

std::optional<TraceContext> TraceContextOf(const grpc::ServerContextBase& call) {
  const std::vector<std::string> traceparents = ValuesOf(call, kTraceparentHeader);
  if (traceparents.empty()) return std::nullopt;
  return ContextOfHeaders(traceparents, ValuesOf(call, kTracestateHeader));
}

void AddTraceContext(const TraceContext& context, grpc::ClientContext* call) {
  call->AddMetadata(std::string(kTraceparentHeader), FormatTraceparent(context));
  if (!context.state.empty()) call->AddMetadata(std::string(kTracestateHeader), context.state);
}

}  // namespace baton
