// Makes a GGUF file of a model directory, for tests of the processes.
#include <cstdio>
#include <string>

#include "tests/fakes/gguf_maker.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: make_gguf DIR OUT.gguf [TYPE of all matrices]\n");
    return 2;
  }
  const std::string type = argc == 4 ? argv[3] : "";
  const absl::Status made =
      baton::MakeGguf(argv[1], {.type_of = [type](const std::string&) { return type; }}, argv[2]);
  if (made.ok()) return 0;
  std::fprintf(stderr, "%s\n", made.ToString().c_str());
  return 1;
}
