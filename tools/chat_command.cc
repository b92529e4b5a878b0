#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "tools/commands.h"
#include "tools/generate/generate_client.h"
#include "tools/generate/generate_flags.h"
#include "tools/generate/summary.h"

namespace baton {
namespace {

struct ChatFlags {
  ClientFlags client;
  RequestFlags request;
  std::string system;
};

v1::ChatMessage Message(std::string role, std::string content) {
  v1::ChatMessage message;
  message.set_role(std::move(role));
  message.set_content(std::move(content));
  return message;
}

PromptRequest::Messages NewConversation(const std::string& system) {
  PromptRequest::Messages messages;
  if (!system.empty()) messages.push_back(Message("system", system));
  return messages;
}

// Shows the prompt sign on a terminal only: piped input gets answers and nothing else.
bool ReadLine(std::string* line) {
  if (isatty(STDIN_FILENO) != 0) Print("> ");
  return static_cast<bool>(std::getline(std::cin, *line));
}

void Tell(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

// Sends the conversation and adds the answer to it; a failed turn is taken back.
bool Answer(GenerateClient* client, const v1::GenerationSpec& spec,
            PromptRequest::Messages* messages) {
  const PromptRequest request{.spec = spec, .input = *messages, .unsendable = {}};
  const Outcome outcome =
      client->Run(request, [](const v1::Delta& delta) { return Print(delta.text()); });
  Print("\n");
  Tell(SummaryOf(outcome));
  if (outcome.status.ok()) {
    messages->push_back(Message("assistant", outcome.text));
  } else {
    messages->pop_back();
  }
  return outcome.status.ok();
}

int Converse(GenerateClient* client, const ChatFlags& flags) {
  const v1::GenerationSpec spec = SpecOf(flags.request);
  PromptRequest::Messages messages = NewConversation(flags.system);
  bool all_ok = true;
  std::string line;
  while (ReadLine(&line)) {
    if (line.empty()) continue;
    if (line == "/exit") break;
    if (line == "/reset") {
      messages = NewConversation(flags.system);
      Tell("  the conversation starts anew\n");
      continue;
    }
    if (line[0] == '/') {
      Tell("  /reset forgets the conversation, /exit ends the program\n");
      continue;
    }
    messages.push_back(Message("user", line));
    all_ok &= Answer(client, spec, &messages);
  }
  return ToInt(all_ok ? ExitCode::kOk : ExitCode::kRequestFailed);
}

}  // namespace

int ChatCommand(const Invocation& call) {
  ChatFlags flags;
  FlagSet set("baton chat", "chat",
              "Talks to a served model, a line a turn. /reset forgets, /exit ends.");
  set.Add(Common(With(TextFlag("system", &flags.system), "Conversation",
                      "what the model is told before the first turn")));
  BindRequest(&set, &flags.request);
  BindClient(&set, &flags.client);
  if (const auto exit = call.Read(&set)) return *exit;
  const auto client = GenerateClient::Connect(flags.client);
  if (!client.ok()) {
    const absl::Status& status = client.status();
    return ReportFatal(set.program(),
                       {.code = ExitCode::kUsage,
                        .what = "cannot reach " + flags.client.server,
                        .why = std::string(status.message().data(), status.message().size()),
                        .next = "baton chat --server HOST:PORT"});
  }
  return Converse(client->get(), flags);
}

}  // namespace baton
