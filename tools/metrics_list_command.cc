#include "common/config/flag_types.h"
#include "common/metrics/catalogue.h"
#include "tools/commands.h"

namespace baton {

int MetricsListCommand(const Invocation& call) {
  bool as_json = false;
  bool as_markdown = false;
  FlagSet set("baton metrics list", "metrics", "Every metric with its labels and meaning.");
  set.Add(Common(With(SwitchFlag("json", &as_json), "Output", "as a JSON array")));
  Flag markdown = SwitchFlag("markdown", &as_markdown);
  markdown.exclusive_with = "json";
  set.Add(Common(With(std::move(markdown), "Output", "as docs/metrics.md")));
  if (const auto exit = call.Read(&set)) return *exit;
  Print(as_json ? MetricsAsJson() : as_markdown ? MetricsAsMarkdown() : MetricsAsText());
  return 0;
}

}  // namespace baton
