#pragma once

#include <cstdint>

// The version of baton.worker.v1, which routers and workers speak with each other. Equal major
// numbers are compatible: within one, fields are only added.
namespace baton {

constexpr int32_t kProtocolMajor = 1;
constexpr int32_t kProtocolMinor = 3;
// Workers of this minor know beam searches. Earlier ones would ignore that one is asked for.
constexpr int32_t kProtocolMinorOfBeams = 3;

}  // namespace baton
