#pragma once

#include <cstdint>

// Of baton.worker.v1, between routers and workers. Equal majors are compatible; within a major
// fields are only added.
namespace baton {

constexpr int32_t kProtocolMajor = 1;
constexpr int32_t kProtocolMinor = 0;

}  // namespace baton
