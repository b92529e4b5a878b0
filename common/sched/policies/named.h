#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/sched/policy.h"

namespace baton {

// The names that --policy takes: "fcfs", …
std::vector<std::string> PolicyNames();
// The policy of that name, with the settings it has unless told otherwise; nothing for another
// name.
std::optional<Policy> PolicyNamed(std::string_view name);

}  // namespace baton
