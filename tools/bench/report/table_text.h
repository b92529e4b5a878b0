#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/bench/report/result_json.h"

// What the tables of results are made of.
namespace baton::bench {

using Runs = std::vector<const RunResult*>;

// The runs of natural ends, or those of forced lengths.
Runs NaturalRuns(const BenchResult& result);
Runs ForcedRuns(const BenchResult& result);

double Median(std::vector<double> values);
// Median over the runs of one number of the measured window.
double Middle(const Runs& runs, const std::function<double(const Figures&)>& number);

// "0.123", "4.56", "78.9", "1234": three digits that mean something.
std::string Short(double value);
// A name and right-aligned cells, with a newline.
std::string TableRow(const std::string& name, const std::vector<std::string>& cells);

}  // namespace baton::bench
