#pragma once

#include <string>

namespace baton {

// Where the build put the fake NCCL library.
std::string FakeNcclPath();

// How it misbehaves in this process from now on, as fake_nccl.cc describes; "" = not at all.
void SetFakeNcclScript(const std::string& script);

}  // namespace baton
