#pragma once

#include <string>

#include "common/config/flag_set.h"
#include "tools/client/client_flags.h"
#include "tools/eos/collect/collect_grid.h"

namespace baton {

struct CollectFlags {
  ClientFlags client;
  std::string model;  // "" = the only one
  std::string prompts;
  std::string out;
  CollectGrid grid;
  int32_t concurrency = 16;

  // As they are given; `grid` has them as numbers once the flags were read.
  std::vector<std::string> temperatures = {"1"};
  std::optional<float> top_p;
};

void BindCollect(FlagSet* set, CollectFlags* flags);

}  // namespace baton
