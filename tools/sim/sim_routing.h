#pragma once

#include <string>
#include <variant>
#include <vector>

#include "router/router_options.h"

namespace baton::simulator {

// Ways to choose workers that are not served, to compare with. Each names one worker of a kind for
// a request, among those that have a place.
enum class BaselineRouting {
  kRandom,  // any
  kTwo,     // of any two, the one with fewer blocks in use or fewer tokens queued
  kHash,    // consistent hashing of the first block of the prompt: the next one that has a place
};
// How routers of a simulation choose.
using SimRouting = std::variant<Routing, BaselineRouting>;

std::string RoutingNameOf(const SimRouting& routing);
std::vector<SimRouting> AllRoutings();
// Whether it looks at the tokens of prompts.
bool LooksAtPrompts(const SimRouting& routing);

}  // namespace baton::simulator
