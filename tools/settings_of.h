#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/flag_set.h"

namespace baton {

// The flags of one command together with the options that they fill.
struct CommandSettings {
  std::shared_ptr<void> options;  // what `set` points into
  std::unique_ptr<FlagSet> set;
};

// The settings of the command serve, router, prefill or decode, none of any other; `program` is its
// name in messages.
std::optional<CommandSettings> SettingsOf(std::string_view command, std::string program);

// The commands that SettingsOf knows.
std::vector<std::string> ConfigurableCommands();

}  // namespace baton
