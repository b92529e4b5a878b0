#include "common/trace/otlp_json.h"

#include "common/base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::vector<std::unique_ptr<const SpanTree>> One(std::unique_ptr<SpanTree> tree) {
  std::vector<std::unique_ptr<const SpanTree>> trees;
  trees.push_back(std::move(tree));
  return trees;
}

class OtlpJsonTest : public ::testing::Test {
 protected:
  std::unique_ptr<SpanTree> Tree(TraceContext caller) {
    return std::make_unique<SpanTree>(std::move(caller), "root", SpanKind::kServer, clock_.Now(),
                                      clock_);
  }

  base::ManualClock clock_;
  const base::Instant begin_ = clock_.Now();
};

TEST_F(OtlpJsonTest, IsWhatTheProtocolSays) {
  auto tree = Tree({.trace_high = 0x4bf92f3577b34da6,
                    .trace_low = 0xa3ce929d0e0e4736,
                    .span = 0x00f067aa0ba902b7,
                    .sampled = true,
                    .state = "rojo=1"});
  const SpanTree::Ref child = tree->Open(SpanTree::kRoot, "child", begin_ + milliseconds(1));
  tree->Set(SpanTree::kRoot, "a.bool", true);
  tree->Set(SpanTree::kRoot, "an.int", int64_t{1} << 60);
  tree->Set(SpanTree::kRoot, "a.double", 0.5);
  tree->Set(SpanTree::kRoot, "a.text", std::string("x"));
  tree->Set(SpanTree::kRoot, "texts", std::vector<std::string>{"stop"});
  tree->AddEvent(SpanTree::kRoot, "first_token", begin_ + milliseconds(2));
  tree->Fail(child, "it broke");
  tree->Close(child, begin_ + milliseconds(3));
  tree->CloseAll(begin_ + milliseconds(4));
  const std::string root_id = SpanIdHex(tree->spans()[0].id);
  const std::string child_id = SpanIdHex(tree->spans()[1].id);
  const int64_t zero = tree->UnixNanos(begin_);
  const auto at = [zero](int64_t ms) { return std::to_string(zero + ms * 1'000'000); };

  const json got =
      json::parse(OtlpJson({{"service.name", std::string("s")}}, One(std::move(tree))));

  const json root = {
      {"traceId", "4bf92f3577b34da6a3ce929d0e0e4736"},
      {"spanId", root_id},
      {"traceState", "rojo=1"},
      {"parentSpanId", "00f067aa0ba902b7"},
      {"flags", 0x301},
      {"name", "root"},
      {"kind", 2},
      {"startTimeUnixNano", at(0)},
      {"endTimeUnixNano", at(4)},
      {"attributes",
       json::array({{{"key", "a.bool"}, {"value", {{"boolValue", true}}}},
                    {{"key", "an.int"}, {"value", {{"intValue", "1152921504606846976"}}}},
                    {{"key", "a.double"}, {"value", {{"doubleValue", 0.5}}}},
                    {{"key", "a.text"}, {"value", {{"stringValue", "x"}}}},
                    {{"key", "texts"},
                     {"value",
                      {{"arrayValue", {{"values", json::array({{{"stringValue", "stop"}}})}}}}}}})},
      {"events", json::array({{{"timeUnixNano", at(2)}, {"name", "first_token"}}})}};
  const json inner = {{"traceId", "4bf92f3577b34da6a3ce929d0e0e4736"},
                      {"spanId", child_id},
                      {"traceState", "rojo=1"},
                      {"parentSpanId", root_id},
                      {"flags", 0x101},
                      {"name", "child"},
                      {"kind", 1},
                      {"startTimeUnixNano", at(1)},
                      {"endTimeUnixNano", at(3)},
                      {"attributes", json::array()},
                      {"status", {{"code", 2}, {"message", "it broke"}}}};
  const json scope = {{"name", "baton"}, {"version", std::string(base::Version())}};
  const json service = {{"key", "service.name"}, {"value", {{"stringValue", "s"}}}};
  const json wanted = {
      {"resourceSpans",
       json::array({{{"resource", {{"attributes", json::array({service})}}},
                     {"scopeSpans", json::array({{{"scope", scope},
                                                  {"spans", json::array({root, inner})}}})}}})}};
  EXPECT_EQ(got, wanted) << got.dump(1);
}

TEST_F(OtlpJsonTest, ATraceThatBeginsHereHasNoParent) {
  const json got = json::parse(OtlpJson({}, One(Tree({.trace_low = 1, .sampled = true}))));
  const json& span = got["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_FALSE(span.contains("traceState"));
  EXPECT_EQ(span["flags"], 0x101);
}

TEST_F(OtlpJsonTest, TextThatIsNoUtf8IsReplaced) {
  auto tree = Tree({.trace_low = 1});
  tree->Set(SpanTree::kRoot, "text", std::string("a\xff"));
  const json got = json::parse(OtlpJson({}, One(std::move(tree))));
  EXPECT_EQ(
      got["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"][0]["value"]["stringValue"],
      "a\xef\xbf\xbd");
}

}  // namespace
}  // namespace baton
