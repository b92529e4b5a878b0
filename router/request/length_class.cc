#include "router/request/length_class.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr size_t kMostTenantBytes = 64;  // of its name; others count as one

}  // namespace

std::string LengthClassOf(const RequestSpec& spec) {
  const auto limit = static_cast<uint32_t>(std::max(1, spec.stop.max_tokens));
  const std::string bucket =
      spec.as_many_as_fit ? "open" : absl::StrCat(uint64_t{std::bit_ceil(limit)});
  const std::string& tenant = spec.tenant.size() <= kMostTenantBytes ? spec.tenant : "others";
  return absl::StrCat(spec.chat ? "chat" : "text", "/", bucket, "/", tenant);
}

}  // namespace baton
