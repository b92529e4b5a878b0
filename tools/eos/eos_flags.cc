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
  if (absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) {
    return ReportFatal(set.program(),
                       FatalOf(status, ExitCode::kRequestFailed, "cannot use the EOS log",
                               "a file that --eos-log wrote"));
  }
  return ReportFatal(
      set.program(),
      FatalOf(status, ExitCode::kResources, "cannot read or write a file",
              "the path of an EOS log that exists; if the disk is full, free space"));
}

}  // namespace baton
