#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace baton::nccl {

struct Action {
  std::string what;
  int value = 0;
};

// What BATON_FAKE_NCCL says at the first call.
class Script final {
 public:
  static Script& Get();
  // Follows `text` from now on; calls are counted anew.
  void Set(const std::string& text);
  // What this call is to do; delays, hangs and deaths happen here.
  Action Next(const std::string& call);

 private:
  struct Rule {
    std::string call;
    int number = 0;
    Action action;
  };
  Action Find(const std::string& call);

  std::mutex mutex_;
  std::vector<Rule> rules_;
  std::map<std::string, int> counts_;
};

}  // namespace baton::nccl
