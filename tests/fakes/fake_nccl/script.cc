#include "tests/fakes/fake_nccl/script.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace baton::nccl {

Script& Script::Get() {
  static auto* const script = [] {
    auto* const made = new Script;  // outlives threads that hang
    const char* const text = std::getenv("BATON_FAKE_NCCL");
    if (text != nullptr) made->Set(text);
    return made;
  }();
  return *script;
}

void Script::Set(const std::string& text) {
  std::lock_guard lock(mutex_);
  rules_.clear();
  counts_.clear();
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    const size_t colon = item.find(':');
    if (colon == std::string::npos) continue;
    const std::string call = item.substr(0, colon);
    const size_t at = call.find('@');
    const int number = at == std::string::npos ? 0 : std::atoi(call.c_str() + at + 1);
    const std::string action = item.substr(colon + 1);
    const size_t equals = action.find('=');
    const int value = equals == std::string::npos ? 0 : std::atoi(action.c_str() + equals + 1);
    rules_.push_back({call.substr(0, at), number, {action.substr(0, equals), value}});
  }
}

Action Script::Find(const std::string& call) {
  std::lock_guard lock(mutex_);
  Action found;
  const int number = ++counts_[call];
  for (const Rule& rule : rules_) {
    if (rule.call == call && (rule.number == 0 || rule.number == number)) found = rule.action;
  }
  return found;
}

Action Script::Next(const std::string& call) {
  const Action found = Find(call);
  if (found.what == "delay_ms") std::this_thread::sleep_for(std::chrono::milliseconds(found.value));
  if (found.what == "die") kill(getpid(), SIGKILL);
  while (found.what == "hang") pause();
  return found;
}

}  // namespace baton::nccl
