#include <cstdio>

#include "common/base/output_file.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/eos/log_parts.h"
#include "tools/commands.h"
#include "tools/eos/csv.h"
#include "tools/eos/eos_flags.h"

namespace baton {

int EosConvertCommand(const Invocation& call) {
  std::string file;
  std::string out;
  FlagSet set(
      "baton eos convert", "eos",
      "Writes an EOS log as CSV: a line with the names of all columns, then a line per row; "
      "what is null is\nempty.");
  BindEosFile(&set, &file);
  Flag target = Valued(TextFlag("out", &out), "X.csv");
  target.required = true;
  set.Add(Common(
      With(std::move(target), "Output", "the CSV file to write; an existing one is replaced")));
  if (const auto exit = call.Read(&set)) return *exit;
  const auto result = ConvertToCsv(LogNamed(file), out);
  if (!result.ok()) return ReportEosFailure(set, result.status());
  if (!result->rest.empty()) {
    std::fprintf(stderr, "%s: left out %s\n", set.program().c_str(), result->rest.c_str());
  }
  const std::string done = out + ": " + std::to_string(result->rows) + " rows\n";
  if (IsWrittenInPlace(out)) {  // it may be standard output
    std::fputs(done.c_str(), stderr);
  } else {
    Print(done);
  }
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
