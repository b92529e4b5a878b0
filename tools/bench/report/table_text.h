#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/bench/report/result_json.h"

// Helpers of the files that print tables of results.
namespace baton::bench {

using Runs = std::vector<const RunResult*>;

// The runs of natural ends, or those of forced lengths.
Runs NaturalRuns(const BenchResult& result);
Runs ForcedRuns(const BenchResult& result);

double Median(std::vector<double> values);
// The median over the runs of one number of the measured window.
double Middle(const Runs& runs, const std::function<double(const Figures&)>& number);

// A row per distribution of requests or gaps, and under it how sure its numbers are: of one run the
// bootstrap's intervals, of several how far these lie apart. What the
// samples of one of the runs are too few for is left out.
std::string LatencyTable(const Runs& runs);

// What stands in a table where nothing was measured.
inline constexpr char kNothing[] = "–";

// A number with three digits that mean something: "0", "0.123", "4.56", "78.9", "1234".
std::string Short(double value);
// A line of a table: a name and right-aligned cells, with a newline.
std::string TableRow(const std::string& name, const std::vector<std::string>& cells);

}  // namespace baton::bench
