#include "tools/commands.h"

int main(int argc, char** argv) {
  return baton::RunBaton(baton::Arguments(argv + (argc > 0 ? 1 : 0), argv + argc));
}
