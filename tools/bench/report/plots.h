#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::bench {

// The Python package that draws: baton_analysis, with matplotlib. Looked for in the Python that
// BATON_PYTHON names, else python3, else Debian's; a package beside the program (a checkout's
// analysis/) is put before what is installed.
class Plotter final {
 public:
  // Checks that it can draw, so that a missing package is found before the load and not after it.
  // FAILED_PRECONDITION says what to install.
  static absl::StatusOr<Plotter> Find();

  // Draws into `directory`, which is made; the drawer prints what it wrote.
  absl::Status Draw(const std::string& result_json, const std::string& rows_jsonl,
                    const std::string& directory) const;

 private:
  explicit Plotter(std::string python) : python_(std::move(python)) {}

  std::string python_;
};

}  // namespace baton::bench
