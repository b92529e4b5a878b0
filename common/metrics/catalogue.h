#pragma once

#include <string>

// The table in forms to read.
namespace baton {

// docs/metrics.md.
std::string MetricsAsMarkdown();
// An array of {name, type, labels, buckets, owners, help}.
std::string MetricsAsJson();
// One line per metric, for a terminal.
std::string MetricsAsText();

}  // namespace baton
