#include <cstdio>
#include <fstream>
#include <iostream>

#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "tools/commands.h"
#include "tools/generate/generate_client.h"
#include "tools/generate/generate_flags.h"
#include "tools/generate/outcome_json.h"
#include "tools/generate/prompt_request.h"
#include "tools/generate/run_prompts.h"
#include "tools/generate/summary.h"

namespace baton {
namespace {

absl::StatusOr<std::vector<PromptRequest>> Requests(const GenerateFlags& flags) {
  const PromptDefaults defaults = {.spec = SpecOf(flags.request), .chat = flags.chat};
  if (flags.prompts_file.empty()) {
    return std::vector<PromptRequest>{RequestOfPrompt(flags.prompt, defaults)};
  }
  if (flags.prompts_file == "-") {
    auto read = ReadPrompts(&std::cin, "standard input", defaults);
    if (std::ferror(stdin) == 0) return read;
    // To std::cin, which reads through stdio, what cannot be read looks like an end.
    return UsageError("cannot read standard input", "reading it failed", "--prompts FILE");
  }
  std::ifstream file(flags.prompts_file);
  if (!file.good()) {
    return UsageError("cannot read " + flags.prompts_file, "it does not exist or is not readable",
                      "--prompts FILE, or - for standard input");
  }
  return ReadPrompts(&file, flags.prompts_file, defaults);
}

// The summary goes to stderr, so that stdout holds the answers only.
void PrintSummary(const Outcome& outcome) {
  const std::string summary = SummaryOf(outcome);
  std::fwrite(summary.data(), 1, summary.size(), stderr);
}

// Says on stderr, where the summary goes too, which prompt is answered next.
void PrintPrompt(const PromptRequest& request) {
  constexpr size_t kShown = 120;
  std::string prompt;
  if (const auto* text = std::get_if<std::string>(&request.input)) prompt = *text;
  if (const auto* messages = std::get_if<PromptRequest::Messages>(&request.input)) {
    if (!messages->empty()) prompt = messages->back().content();
  }
  if (prompt.size() > kShown) {
    size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(prompt[end]) & 0xC0) == 0x80) --end;  // UTF-8
    prompt = prompt.substr(0, end) + "...";
  }
  std::fputs(("> " + prompt + "\n").c_str(), stderr);
}

// Prints the answers that did not come token by token, each with its summary. False when stdout
// does not take them.
bool PrintAnswers(const Outcome& outcome) {
  if (!outcome.status.ok()) {
    PrintSummary(outcome);
    return true;
  }
  for (const OutcomeAnswer* const answer : outcome.answers()) {
    if (!Print(answer->text + "\n")) return false;
    const std::string summary = outcome.several() ? SummaryOf(*answer) : SummaryOf(outcome);
    std::fwrite(summary.data(), 1, summary.size(), stderr);
  }
  return true;
}

// Prints an answer, or an error where there is none, as `flags` say.
bool PrintOutcome(const Outcome& outcome, const GenerateFlags& flags) {
  if (flags.json) return Print(OutcomeAsJson(outcome) + "\n");
  if (outcome.several()) return PrintAnswers(outcome);
  if (!Print(outcome.text + "\n")) return false;
  PrintSummary(outcome);
  return true;
}

// Sends one prompt after the other and prints each token as it comes. Of several answers, whose
// tokens come all at once, it prints one after the other. It ends where stdout takes no more.
bool Stream(GenerateClient* client, const std::vector<PromptRequest>& requests) {
  bool all_ok = true;
  for (const PromptRequest& request : requests) {
    if (requests.size() > 1) PrintPrompt(request);
    const v1::SamplingParams& sampling = request.spec.sampling();
    const bool several = sampling.n() > 1 || sampling.best_of() > 1 || sampling.beam_width() > 1;
    GenerateClient::OnDelta print;
    bool printed = true;
    if (!several) print = [&](const v1::Delta& delta) { return printed = Print(delta.text()); };
    const Outcome outcome = client->Run(request, print);
    printed = printed && (several ? PrintAnswers(outcome) : Print("\n"));
    if (!printed) break;
    if (!several) PrintSummary(outcome);
    all_ok &= outcome.status.ok();
  }
  return all_ok;
}

bool Collect(GenerateClient* client, const std::vector<PromptRequest>& requests,
             const GenerateFlags& flags) {
  bool all_ok = true;
  RunPrompts(client, requests, flags.concurrency, [&](const Outcome& outcome) {
    all_ok &= outcome.status.ok();
    return PrintOutcome(outcome, flags);
  });
  return all_ok;
}

int UsageFailure(const FlagSet& set, const absl::Status& status) {
  const std::string message(status.message().data(), status.message().size());
  std::fputs((set.program() + ": fatal: " + message + "\n").c_str(), stderr);
  return ToInt(ExitCode::kUsage);
}

}  // namespace

int GenerateCommand(const Invocation& call) {
  GenerateFlags flags;
  FlagSet set("baton generate", "generate", "Sends prompts to a router and prints the answers.");
  BindGenerate(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const auto requests = Requests(flags);
  if (!requests.ok()) return UsageFailure(set, requests.status());
  const auto client = GenerateClient::Connect(flags.client);
  if (!client.ok()) return UsageFailure(set, client.status());
  const bool stream = !flags.json && flags.concurrency == 1;
  const bool all_ok =
      stream ? Stream(client->get(), *requests) : Collect(client->get(), *requests, flags);
  return ToInt(all_ok ? ExitCode::kOk : ExitCode::kRequestFailed);
}

}  // namespace baton
