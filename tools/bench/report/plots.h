#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::bench {

// The Python package that draws: baton_analysis, with matplotlib. Looked for in the Python that
// BATON_PYTHON names, else python3, else Debian's; a package beside the program (a checkout's
// analysis/) is put before what is installed.
class Plotter final {
 public:
  // Checks that a module of the package, as "bench_plots", can draw, so that a missing package is
  // found before the load and not after it. FAILED_PRECONDITION says what to install.
  static absl::StatusOr<Plotter> Find(const std::string& module);

  // Draws the results of `files` into `directory`, which is made; the drawer prints what it wrote.
  absl::Status Draw(const std::vector<std::string>& files, const std::string& directory) const;

 private:
  Plotter(std::string python, std::string module)
      : python_(std::move(python)), module_(std::move(module)) {}

  std::string python_;
  std::string module_;
};

}  // namespace baton::bench
