#include "common/config/bind.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"
#include "common/config/standard_files.h"
#include "router/router_process.h"

int main(int argc, char** argv) {
  baton::OpenStandardFiles();
  baton::RouterFlags flags;
  baton::FlagSet set("baton-router", "router",
                     "Router: takes requests, sends them to prefill and decode workers, streams "
                     "the answers.");
  baton::BindRouter(&set, &flags);
  if (const auto code = set.ParseOrExit(argc, argv)) return *code;
  return baton::RunRouter(flags);
}
