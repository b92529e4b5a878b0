#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/eos/eos_fields.h"
#include "common/eos/log_parts.h"
#include "tools/commands.h"
#include "tools/eos/eos_flags.h"
#include "tools/eos/validate_log.h"

namespace baton {
namespace {

constexpr size_t kMostProblems = 20;  // of each file

}  // namespace

int EosValidateCommand(const Invocation& call) {
  std::vector<std::string> files;
  bool schema = false;
  FlagSet set("baton eos validate", "eos",
              "Checks every row of EOS logs, against the schema of rows and against the other rows "
              "of its\nrequest. Exit 0 when all are good, else 1.");
  BindEosFiles(&set, &files, /*required=*/false);
  set.Add(Common(With(SwitchFlag("schema", &schema), "Output",
                      "print the JSON schema of a row, docs/eos_log.schema.json, and end")));
  set.AddCheck([&] {
    if (schema || !files.empty()) return absl::OkStatus();
    return UsageError("FILE… is missing", "expected an EOS log, as --eos-log writes it",
                      "baton eos validate eos_probabilities.jsonl");
  });
  if (const auto exit = call.Read(&set)) return *exit;
  if (schema) {
    Print(EosRowSchema());
    return ToInt(ExitCode::kOk);
  }
  bool good = true;
  for (const LogFiles& log : LogsNamed(files)) {
    const auto found = ValidateLog(log, kMostProblems);
    if (!found.ok()) return ReportEosFailure(set, found.status());
    Print(FindingsText(log.name, *found));
    good = good && found->bad == 0 && !found->cut_off && !found->broken;
  }
  return ToInt(good ? ExitCode::kOk : ExitCode::kRequestFailed);
}

}  // namespace baton
