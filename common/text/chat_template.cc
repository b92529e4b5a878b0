#include "common/text/chat_template.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"

namespace baton {

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::string& model) {
  if (IsGgufPath(model)) return LoadGguf(model);
  BatonChat* chat = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_chat_load(rust::SliceOf(model), &chat, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(Handle(chat)));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::LoadGguf(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  BATON_ASSIGN_OR_RETURN(const GgufText text, ReadGgufText(*file));
  if (text.chat_template.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " has no chat template (tokenizer.chat_template)"));
  }
  auto chat = FromSource(text.chat_template, text.bos, text.eos);
  if (chat.ok()) return chat;
  return absl::Status(chat.status().code(),
                      absl::StrCat("chat template of ", path, ": ", chat.status().message()));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromSource(std::string_view source,
                                                                       std::string_view bos_token,
                                                                       std::string_view eos_token) {
  BatonChat* chat = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_chat_from_source(rust::SliceOf(source), rust::SliceOf(bos_token),
                                                    rust::SliceOf(eos_token), &chat, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(Handle(chat)));
}

absl::StatusOr<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                                 const ChatRenderOptions& options) const {
  std::vector<BatonChatMessage> slices;
  slices.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    slices.push_back({rust::SliceOf(message.role), rust::SliceOf(message.content),
                      rust::SliceOf(message.fields_json)});
  }
  const BatonChatRequest request = {
      .messages = slices.data(),
      .message_count = slices.size(),
      .add_generation_prompt = static_cast<uint8_t>(options.add_generation_prompt ? 1 : 0),
      .unix_time = options.unix_time,
      .variables_json = rust::SliceOf(options.variables_json)};
  BatonBuffer text;
  BatonBuffer error;
  const BatonStatus status = baton_chat_render(handle_.get(), &request, &text, &error);
  if (status == BATON_INVALID) {
    return InvalidArgument(Reason::kInvalidText, "messages", rust::TakeString(error));
  }
  if (status != BATON_OK) return rust::TakeError(status, error);
  return rust::TakeString(text);
}

}  // namespace baton
