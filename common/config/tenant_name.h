#pragma once

#include <cstddef>
#include <string_view>

namespace baton {

constexpr size_t kMaxTenantBytes = 64;
// What messages say was expected of a tenant's name.
constexpr char kTenantNameRule[] = "expected 1 to 64 of A-Z a-z 0-9 . _ - that name no role";

// Whether a certificate with that name is a process's of this service: router, prefill or decode.
bool IsRoleName(std::string_view name);
// Whether a tenant may have that name.
bool IsTenantName(std::string_view name);

}  // namespace baton
