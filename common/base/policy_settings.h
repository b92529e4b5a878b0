#pragma once

#include <cstdint>

namespace baton {

// What can be set about policies, as plain data. docs/policies.md says what each does.
struct PolicySettings {
  double quantile = 0.7;       // of the KV that is foreseen; within [0.5, 0.99]
  double gamma = 0.01;         // 1/token, > 0; large: first come, first served
  double preempt_until = 0.5;  // part of its length, within [0, 1]; 0: nobody is displaced
  double promote_after = 10;   // times its length
  int32_t line = 4;            // requests that wait at a worker where it chooses among them
};

}  // namespace baton
