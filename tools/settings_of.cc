#include "tools/settings_of.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "common/config/bind.h"
#include "tools/serve/serve_flags.h"

namespace baton {
namespace {

template <typename Options, typename Bind>
CommandSettings Make(Options defaults, Bind bind, std::string program, std::string section) {
  const std::string description = "Shows the settings of `" + section +
                                  "` and where each came from; of another command: "
                                  "baton config print " +
                                  absl::StrJoin(ConfigurableCommands(), "|") +
                                  "|generate|chat|bench.";
  auto options = std::make_shared<Options>(std::move(defaults));
  CommandSettings settings;
  settings.set = std::make_unique<FlagSet>(std::move(program), std::move(section), description);
  bind(settings.set.get(), options.get());
  settings.options = std::move(options);
  return settings;
}

}  // namespace

std::vector<std::string> ConfigurableCommands() { return {"serve", "router", "prefill", "decode"}; }

std::optional<CommandSettings> SettingsOf(std::string_view command, std::string program) {
  if (command == "serve") return Make(ServeFlags(), BindServe, std::move(program), "serve");
  if (command == "router") return Make(RouterFlags(), BindRouter, std::move(program), "router");
  if (command == "prefill") {
    return Make(DefaultPrefillFlags(), BindWorker, std::move(program), "prefill");
  }
  if (command == "decode") {
    return Make(DefaultDecodeFlags(), BindDecodeWorker, std::move(program), "decode");
  }
  return std::nullopt;
}

}  // namespace baton
