#include "common/metrics/catalogue.h"

#include <array>
#include <charconv>

#include "common/metrics/metric.h"
#include "common/metrics/queries.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr std::array<MetricRole, 3> kRoles = {MetricRole::kRouter, MetricRole::kPrefill,
                                              MetricRole::kDecode};

std::string Number(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string();
}

// Whose series they are. An elastic worker has those of both roles, with decode as its label.
std::string Owners(const MetricInfo& info) {
  std::string owners;
  const auto add = [&owners](std::string_view owner) {
    owners += (owners.empty() ? "" : ", ") + std::string(owner);
  };
  for (const MetricRole role : kRoles) {
    if (info.OwnedBy(role)) add(MetricRoleName(role));
  }
  if (info.OwnedBy(MetricRole::kPrefill) && !info.OwnedBy(MetricRole::kDecode)) add("elastic");
  return owners;
}

// Labels with their values: "finished_reason = stop, length; stop_cause = eos, none".
std::string LabelsOf(const MetricInfo& info, std::string_view quote) {
  std::string text;
  for (const MetricLabel& label : info.labels) {
    if (!text.empty()) text += "; ";
    text += std::string(quote) + label.name + std::string(quote);
    for (size_t i = 0; i < label.values.size(); ++i) {
      text += (i == 0 ? " = " : ", ") + label.values[i];
    }
  }
  return text;
}

constexpr std::string_view kHead = R"(# Metrics

Every Baton process serves its metrics in the Prometheus text format at `/metrics` of its admin port, beside `/healthz` and
`/readyz`. This page is made by `baton metrics list --markdown` from the tables in `common/metrics`; a test compares them.

All `baton_` series carry the labels `model_name`, `engine` and `role` (router, prefill or decode). Series about whole requests
come from the router only, so sums never count a request twice; phases, load and KV cache come from the workers. An elastic
worker has the series of both roles, all of them with `role="decode"`. Names, labels and bucket boundaries follow vLLM where it
has the same thing, with the prefix `baton_` for `vllm:`.

## What to ask

Each query is over all processes that Prometheus scrapes; with several models, add `model_name` to the selectors. `[5m]`
should be at least four times the scrape interval.

)";

constexpr std::string_view kLog = R"(
## In the log

Who has no Prometheus reads the log: at level info, every 10 s (`--log-stats-interval`) while there was anything to do, and
once when there is nothing any more, each process tells its load:

```
load: 3 running, 1 waiting; 51.2 prompt and 402.7 generated tokens/s; in 10.0 s 12 requests answered, 0 failed
load: 2 running, 0 waiting; 51.2 prompt and 402.7 generated tokens/s; KV cache 12.5% in use, prefix cache hit rate 40.0%
```

The first is a router's, which counts a prompt when its request ends, and as failed what got no whole answer, also because
its client left or asked for what cannot be; the second a worker's, which counts a prompt when it has computed it, found it
in its cache or received it. At level debug a router has a line for each request that ended: tenant, tokens, finish
reason, times and attempts.
)";

// Two lines for each: what is asked of whom, and the query as a block of its own, because a bar
// inside a table would have to be escaped and could not be copied.
std::string QueriesAsMarkdown() {
  std::string text;
  for (const MetricQuery& each : MetricQueries()) {
    text += "**" + std::string(each.question) + "** (" + std::string(each.by) + ").";
    if (!each.note.empty()) text += " " + std::string(each.note);
    text += "\n\n```promql\n" + std::string(each.query) + "\n```\n\n";
  }
  text.pop_back();
  return text;
}

}  // namespace

std::string MetricsAsMarkdown() {
  std::string text = std::string(kHead) + QueriesAsMarkdown() + std::string(kLog) +
                     "\n## Every metric\n\n"
                     "| name | type | by | labels | meaning |\n|---|---|---|---|---|\n";
  for (const MetricInfo& info : MetricTable()) {
    text += "| `" + info.name + "` | " + std::string(MetricTypeName(info.type)) + " | " +
            Owners(info) + " | " + LabelsOf(info, "`") + " | " + info.help + " |\n";
  }
  text +=
      "\n## Buckets\n\nHistograms of lengths in tokens end at the model's context length.\n\n"
      "| name | upper bounds |\n|---|---|\n";
  for (const MetricInfo& info : MetricTable()) {
    if (info.type != MetricType::kHistogram) continue;
    text += "| `" + info.name + "` |";
    for (const double bound : info.buckets) text += " " + Number(bound);
    text += " |\n";
  }
  return text;
}

std::string MetricsAsJson() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MetricInfo& info : MetricTable()) {
    nlohmann::ordered_json labels = nlohmann::ordered_json::object();
    for (const MetricLabel& label : info.labels) labels[label.name] = label.values;
    nlohmann::ordered_json owners = nlohmann::ordered_json::array();
    for (const MetricRole role : kRoles) {
      if (info.OwnedBy(role)) owners.push_back(MetricRoleName(role));
    }
    list.push_back({{"name", info.name},
                    {"type", MetricTypeName(info.type)},
                    {"owners", owners},
                    {"labels", labels},
                    {"buckets", info.buckets},
                    {"help", info.help}});
  }
  return list.dump(2) + "\n";
}

std::string MetricsAsText() {
  std::string text;
  for (const MetricInfo& info : MetricTable()) {
    text += info.name + "  " + std::string(MetricTypeName(info.type)) + "  (" + Owners(info) + ")";
    const std::string labels = LabelsOf(info, "");
    if (!labels.empty()) text += "  {" + labels + "}";
    text += "\n    " + info.help + "\n";
  }
  return text;
}

}  // namespace baton
