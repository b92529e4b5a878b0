// The header of a parcel as it arrives in a staging buffer.
#include <span>
#include <string>
#include <vector>

#include "common/transport/pair/pair_parcel.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {

FUZZ_TARGET(parcel) {
  // Behind the input come zeros, as in a buffer of which little is used.
  std::vector<char> bytes(input.begin(), input.end());
  if (bytes.size() > 8) bytes.resize(kParcelHeaderBytes);
  const auto header = DecodeParcelHeader(std::as_bytes(std::span(bytes)));
  if (!Accepted(header.status())) return;
  BATON_CHECK(header->plan.parts.size() <= kMaxParcelParts);
  BATON_CHECK(!header->has_sums || header->sums.size() == header->plan.parts.size());
  Accepted(CheckParcelPlan(header->plan, int64_t{16} << 20));
  const std::string written = EncodeParcelHeader(*header);
  const auto again = DecodeParcelHeader(std::as_bytes(std::span(written)));
  BATON_CHECK(again.ok()) << again.status().ToString();
  const absl::Status same = CheckParcelHeader(*again, header->epoch, header->plan);
  BATON_CHECK(same.ok()) << same.ToString();
  BATON_CHECK(again->is_void == header->is_void && again->sums == header->sums);
}

}  // namespace baton::fuzz
