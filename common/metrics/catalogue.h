#pragma once

#include <string>

// The table of metrics in the forms that people and programs read.
namespace baton {

// The content of docs/metrics.md.
std::string MetricsAsMarkdown();
// An array of {name, type, labels, buckets, owners, help}.
std::string MetricsAsJson();
// One line per metric, for a terminal.
std::string MetricsAsText();

}  // namespace baton
