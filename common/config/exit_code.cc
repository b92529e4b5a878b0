#include "common/config/exit_code.h"

#include <cstdio>

namespace baton {

std::string FatalLine(std::string_view program, const Fatal& fatal) {
  std::string line(program);
  line += ": fatal: " + fatal.what + ": " + fatal.why + ".";
  if (!fatal.next.empty()) line += " Try: " + fatal.next;
  return line;
}

int ReportFatal(std::string_view program, const Fatal& fatal) {
  const std::string line = FatalLine(program, fatal) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return ToInt(fatal.code);
}

}  // namespace baton
