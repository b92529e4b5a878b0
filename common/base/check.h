#pragma once

#include <sstream>
#include <string>

namespace baton::base {

// Ends the process when an invariant of our own code is broken.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Lets BATON_CHECK be a statement that takes `<< values`.
struct CheckVoidify {
  void operator&(std::ostream&) {}
};

}  // namespace baton::base

// Ends the process when `condition`, which only a bug of ours can break, is false:
// `BATON_CHECK(a <= b) << a << " blocks of " << b;`
#define BATON_CHECK(condition)                  \
  (condition) ? static_cast<void>(0)            \
              : ::baton::base::CheckVoidify() & \
                    ::baton::base::CheckFailure(__FILE__, __LINE__, #condition).stream()
