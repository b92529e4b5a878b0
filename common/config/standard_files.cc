#include "common/config/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/config/exit_code.h"

namespace baton {
namespace {

// What a program is started with outlives the start, so it has no FD_CLOEXEC. A library may have
// opened a file of its own before main: gRPC forgets an eventfd that gets the number 0.
bool IsInherited(int number) {
  const int flags = fcntl(number, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

// Programs that are started from here inherit it.
bool LeadNowhere(int number) {
  const int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, number) < 0) return false;
  if (null > STDERR_FILENO) close(null);
  return true;
}

}  // namespace

void OpenStandardFiles() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // There may be nowhere to say why it ends.
    if (!IsInherited(number) && !LeadNowhere(number)) _exit(ToInt(ExitCode::kResources));
  }
}

}  // namespace baton
