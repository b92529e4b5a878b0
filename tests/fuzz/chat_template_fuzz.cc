// A chat template; behind lines "%%" a message's text, its further fields and the variables.
#include <string>

#include "common/text/chat_template.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {

FUZZ_TARGET(chat_template) {
  const auto chat = ChatTemplate::FromSource(TakeSection(&input), "<s>", "</s>");
  if (!Accepted(chat.status())) return;
  ChatMessage message = {.role = "user", .content = std::string(TakeSection(&input))};
  message.fields_json = std::string(TakeSection(&input));
  const ChatMessage messages[] = {{.role = "system", .content = "Be brief."}, message};
  ChatRenderOptions options;
  options.variables_json = std::string(TakeSection(&input));
  const auto text = (*chat)->Render(messages, options);
  if (!Accepted(text.status())) return;
  BATON_CHECK(*(*chat)->Render(messages, options) == *text);
}

}  // namespace baton::fuzz
