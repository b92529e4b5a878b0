#include "common/trace/otlp_json.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "common/base/version.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusError = 2;
// Bit 8 says that bit 9 means something, and that says whether the parent is of another process.
constexpr int kFlagSampled = 1;
constexpr int kFlagKnowsRemote = 1 << 8;
constexpr int kFlagRemote = 1 << 9;

struct ValueJson {
  Json operator()(bool value) const { return {{"boolValue", value}}; }
  Json operator()(int64_t value) const { return {{"intValue", std::to_string(value)}}; }
  Json operator()(double value) const { return {{"doubleValue", value}}; }
  Json operator()(const std::string& value) const { return {{"stringValue", value}}; }
  Json operator()(const std::vector<std::string>& values) const {
    Json array = Json::array();
    for (const std::string& value : values) array.push_back((*this)(value));
    return {{"arrayValue", {{"values", std::move(array)}}}};
  }
};

Json AttributesJson(const std::vector<SpanAttribute>& attributes) {
  Json array = Json::array();
  for (const SpanAttribute& attribute : attributes) {
    array.push_back(
        {{"key", std::string(attribute.key)}, {"value", std::visit(ValueJson(), attribute.value)}});
  }
  return array;
}

Json SpanJson(const SpanTree& tree, const Span& span, bool remote_parent) {
  const auto nanos = [&tree](base::Instant at) { return std::to_string(tree.UnixNanos(at)); };
  Json json = {{"traceId", TraceIdHex(tree.context())}, {"spanId", SpanIdHex(span.id)}};
  if (!tree.context().state.empty()) json["traceState"] = tree.context().state;
  if (span.parent != 0) json["parentSpanId"] = SpanIdHex(span.parent);
  json["flags"] = kFlagSampled | kFlagKnowsRemote | (remote_parent ? kFlagRemote : 0);
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = nanos(span.begin);
  json["endTimeUnixNano"] = nanos(span.end);
  json["attributes"] = AttributesJson(span.attributes);
  if (!span.events.empty()) {
    Json& events = json["events"] = Json::array();
    for (const SpanEvent& event : span.events) {
      events.push_back({{"timeUnixNano", nanos(event.at)}, {"name", std::string(event.name)}});
    }
  }
  if (span.failed) json["status"] = {{"message", span.error}, {"code", kStatusError}};
  return json;
}

void AppendSpans(const SpanTree& tree, Json* array) {
  const auto is_local = [&tree](uint64_t id) {
    for (const Span& span : tree.spans()) {
      if (span.id == id) return true;
    }
    return false;
  };
  for (const Span& span : tree.spans()) {
    array->push_back(SpanJson(tree, span, span.parent != 0 && !is_local(span.parent)));
  }
}

}  // namespace

std::string OtlpJson(const TraceResource& resource,
                     const std::vector<std::unique_ptr<const SpanTree>>& trees) {
  Json spans = Json::array();
  for (const auto& tree : trees) AppendSpans(*tree, &spans);
  Json scope = {{"name", "baton"}, {"version", std::string(base::Version())}};
  Json scope_spans = Json::array();
  scope_spans.push_back({{"scope", std::move(scope)}, {"spans", std::move(spans)}});
  Json resource_spans = Json::array();
  resource_spans.push_back({{"resource", {{"attributes", AttributesJson(resource)}}},
                            {"scopeSpans", std::move(scope_spans)}});
  return Json{{"resourceSpans", std::move(resource_spans)}}.dump(-1, ' ', false,
                                                                 Json::error_handler_t::replace);
}

}  // namespace baton
