// FakeOpenAiServer as a process: fake_openai_server SLOW_FROM [API_KEY]. Says its URL on standard
// output and serves until standard input ends. A request is answered in about 20 ms, but in 200 ms
// when SLOW_FROM others are under way.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/fakes/fake_openai_server.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("expected SLOW_FROM [API_KEY]\n", stderr);
    return 2;
  }
  using std::chrono::milliseconds;
  const baton::testing::FakeOpenAiServer server({.ttft = milliseconds(5),
                                                 .gap = milliseconds(1),
                                                 .slow_from = std::atoi(argv[1]),
                                                 .slow_ttft = milliseconds(185),
                                                 .api_key = argc > 2 ? argv[2] : "",
                                                 .threads = 64});
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
