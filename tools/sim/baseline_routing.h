#pragma once

#include <random>

#include "router/placement/choose_place.h"
#include "tools/sim/sim_routing.h"

namespace baton::simulator {

// As ChoosePlace, of the workers that a baseline names.
RequestQueue::Try ChooseByBaseline(BaselineRouting routing, const PlacementView& view,
                                   const RoutingNeed& need, const RequestQueue::Ahead& ahead,
                                   std::mt19937_64* random, ChosenPlace* place);

}  // namespace baton::simulator
