#include "router/edge/text_edge.h"

#include <string>

#include "common/base/status.h"

namespace baton {

absl::StatusOr<std::vector<TokenId>> TokenizeInput(const RequestInput& input,
                                                   const ServedModel& model,
                                                   std::optional<bool> special_tokens,
                                                   double unix_time) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) return *ids;
  if (const auto* text = std::get_if<std::string>(&input)) {
    return model.tokenizer->Encode(*text, special_tokens.value_or(true));
  }
  const auto& messages = std::get<std::vector<ChatMessage>>(input);
  ChatRenderOptions options;
  options.unix_time = unix_time;
  BATON_ASSIGN_OR_RETURN(const std::string prompt, model.chat_template->Render(messages, options));
  return model.tokenizer->Encode(prompt, special_tokens.value_or(false));
}

size_t InputBytes(const RequestInput& input) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
    return ids->size() * sizeof(TokenId);
  }
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  size_t bytes = 0;
  for (const ChatMessage& message : std::get<std::vector<ChatMessage>>(input)) {
    bytes += message.role.size() + message.content.size();
  }
  return bytes;
}

}  // namespace baton
