#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/rust/rust_face.h"

namespace baton {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", …: what the template knows
  std::string content;
  // Further fields as the text of a JSON object, e.g. {"tool_calls":[…]}. Empty means none.
  std::string fields_json = {};
};

struct ChatRenderOptions {
  // Ends the prompt with the opening of the assistant's turn.
  bool add_generation_prompt = true;
  // What strftime_now() of a template prints: seconds since the Unix epoch, in UTC.
  double unix_time = 0;
  // Further variables of the template as the text of a JSON object, e.g. {"enable_thinking":false}
  // or {"tools":[…]}. Empty means none.
  std::string variables_json;
};

// The chat template of a model: Jinja, with the functions, filters and whitespace rules that
// Hugging Face transformers gives it. Immutable after loading, so any thread may render.
class ChatTemplate final {
 public:
  // Looks, as transformers does, for chat_template.jinja, chat_template.json and `chat_template` of
  // tokenizer_config.json (a string, or a list of named ones of which "default" is taken).
  // Of a GGUF file it is "tokenizer.chat_template". NOT_FOUND when the model has no template;
  // INVALID_ARGUMENT when it has one that does not parse.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::string& model);

  // For a template that is not in a model directory. `bos_token` and `eos_token` may be empty,
  // which leaves those variables undefined.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromSource(std::string_view source,
                                                                  std::string_view bos_token,
                                                                  std::string_view eos_token);

  // The prompt of a conversation; encode it with add_special_tokens = false.
  // INVALID_ARGUMENT (Reason::kInvalidText, field "messages") when the template refuses the
  // conversation (raise_exception), fails on it, or needs more steps than a bounded render may
  // take.
  absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                     const ChatRenderOptions& options) const;

 private:
  using Handle = rust::Handle<BatonChat, baton_chat_free>;
  explicit ChatTemplate(Handle handle) : handle_(std::move(handle)) {}
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadGguf(const std::string& path);

  const Handle handle_;
};

}  // namespace baton
