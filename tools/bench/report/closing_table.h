#pragma once

#include <string>

#include "tools/bench/report/result_json.h"

namespace baton::bench {

// What a person reads after a run: latencies with their percentiles, rates, where the time to the
// first token went, how requests ended, and all that is wrong with the measurement. With several
// runs each cell is the median of the runs. Ends with a newline.
std::string ClosingTable(const BenchResult& result);

// Runs of natural and of forced length side by side; empty unless there are both.
std::string EosComparison(const BenchResult& result);

// How a point of a search was judged: "passes", "fails: ttft: 20 of 400 over 50 ms".
std::string PointText(const SearchPoint& point);

// The answer of a search in one sentence: "highest requests/s that keeps the SLO: 14.7"; of one
// that ended before it knew, "requests/s that keeps the SLO: at least 14.7; interrupted".
std::string SearchAnswer(const FindMaxResult& search, SearchFor variable);

// What to do about a search that this program was too slow for; "" for others.
std::string SearchAdvice(const FindMaxResult& search);

// What a search found: every point in the order of its value, then the answer.
std::string SearchTable(const FindMaxResult& search, SearchFor variable, const Slo& slo);

}  // namespace baton::bench
