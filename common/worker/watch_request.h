#pragma once

#include "baton/worker/v1/status.pb.h"
#include "common/roles/role_view.h"
#include "common/sched/place_shares.h"

// What a router says over its Watch, as the worker takes it in. Routers may be of another version,
// so whatever number comes, those here are finite, not negative, and small enough to be summed over
// all routers.
namespace baton {

PlaceShares::Demand DemandFromProto(const worker::v1::Demand& demand);
ClusterView ClusterFromProto(const worker::v1::Cluster& cluster);

}  // namespace baton
