#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/flag_set.h"

namespace baton {

// The flags of one command together with the options that they fill.
struct CommandSettings {
  std::shared_ptr<void> options;  // what `set` points into
  std::unique_ptr<FlagSet> set;
};

// The settings of the command serve, router, prefill or decode; `program` is its name in messages.
absl::StatusOr<CommandSettings> SettingsOf(std::string_view command, std::string program);

// The commands that SettingsOf knows.
std::vector<std::string> ConfigurableCommands();

}  // namespace baton
