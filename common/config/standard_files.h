#pragma once

namespace baton {

// Opens /dev/null in the place of each of stdin, stdout and stderr that is closed. Otherwise the
// next files and connections of the process would get their numbers, and what it prints would go
// into these. To be called first of all in main. Ends the process where /dev/null cannot be opened.
void OpenStandardFiles();

}  // namespace baton
