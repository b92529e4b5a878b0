#include "tools/eos/eos_flags.h"

#include <utility>

#include "common/config/exit_code.h"
#include "common/config/flag_types.h"

namespace baton {
namespace {

constexpr char kName[] = "eos-file";

Flag Positional(Flag flag, std::string value, bool required) {
  flag = Valued(std::move(flag), std::move(value));
  flag.help = "an EOS log, as --eos-log writes it, with all its parts, or one part FILE.N[.zst]";
  flag.positional = true;
  flag.required = required;
  return flag;
}

}  // namespace

void BindEosFile(FlagSet* set, std::string* file) {
  set->Add(Positional(TextFlag(kName, file), "FILE", true));
}

void BindEosFiles(FlagSet* set, std::vector<std::string>* files, bool required) {
  set->Add(Positional(TextListFlag(kName, files), "FILE…", required));
}

int ReportEosFailure(const FlagSet& set, const absl::Status& status) {
  const ExitCode code = absl::IsInvalidArgument(status) || absl::IsDataLoss(status)
                            ? ExitCode::kRequestFailed
                            : ExitCode::kResources;
  return ReportFatal(set.program(), FatalOf(status, code, "cannot go on",
                                            "a file that --eos-log wrote, and a folder with room"));
}

}  // namespace baton
