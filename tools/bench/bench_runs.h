#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tools/bench/bench_flags.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/report/result_json.h"
#include "tools/bench/report/rows_file.h"

namespace baton::bench {

// Every run that the flags ask for, one after the other: seeds from --seed on, natural and forced
// lengths in turns for --eos both. Each goes to `rows`, which may be null, as it ends. Stops early
// when the session is stopped, a run was cut short or forced lengths were not kept; an error is one
// that kept a run from starting, or of `rows`. `result` holds what was measured in any case.
absl::Status MakeRuns(const BenchFlags& flags, BenchSession* session, RowsFile* rows,
                      BenchResult* result);

// The search of --find-max. `on_point` hears of every point that was judged. The latest run of the
// highest accepted point becomes the result's only run.
absl::Status MakeSearch(const BenchFlags& flags, BenchSession* session, RowsFile* rows,
                        const std::function<void(const SearchPoint&)>& on_point,
                        BenchResult* result);

}  // namespace baton::bench
