#pragma once

namespace baton {

// Whether AddressSanitizer or ThreadSanitizer is built in. They look at the code that runs, not at
// rare orders of events, and take a sweep over seeds some ten times as long: so such a test runs
// fewer seeds under them, and a plain build runs all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace baton
