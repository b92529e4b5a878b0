#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/flag_set.h"

namespace baton {

// The positional argument FILE of a command that reads one EOS log, and FILE… of one that reads
// several.
void BindEosFile(FlagSet* set, std::string* file);
void BindEosFiles(FlagSet* set, std::vector<std::string>* files, bool required);

// Reports that a log could not be read, or what was made of it not be written, and returns the
// number to exit with.
int ReportEosFailure(const FlagSet& set, const absl::Status& status);

}  // namespace baton
