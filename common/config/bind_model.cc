// What a process serves, and under which name.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/config/utf8.h"

namespace baton {
namespace {

// Answers, metrics and logs have the name in them: JSON takes no other bytes than UTF-8, and a
// terminal would obey control characters.
absl::Status CheckName(const std::string& given, const std::string& model_dir) {
  const std::string name = ServedModelName(given, model_dir);
  const bool utf8 = IsUtf8(name);
  if (utf8 && ShownLine(name) == name) return absl::OkStatus();
  const std::string shown = absl::StrCat("'", ShownText(name), "'");
  return UsageError(given.empty() ? absl::StrCat("the model's name ", shown, ", from its path")
                                  : absl::StrCat("--served-model-name ", shown),
                    utf8 ? "it has control characters; expected text on one line"
                         : "it is not UTF-8, which answers and metrics are",
                    "--served-model-name NAME");
}

}  // namespace

void BindModelDir(FlagSet* set, std::string* model_dir) {
  Flag flag = TextFlag("model-dir", model_dir);
  flag.value = "DIR";
  flag.help = "a model directory in Hugging Face form, or a GGUF file";
  flag.path = PathUse::kModel;
  flag.positional = true;
  flag.required = true;
  set->Add(std::move(flag));
}

void BindServedModelName(FlagSet* set, std::string* name, const std::string* model_dir,
                         const std::string& group, std::string help) {
  set->Add(With(Valued(TextFlag("served-model-name", name), "NAME"), group, std::move(help)));
  set->AddCheck([name, model_dir] {
    // Without a model this process names none.
    return model_dir->empty() ? absl::OkStatus() : CheckName(*name, *model_dir);
  });
}

}  // namespace baton
