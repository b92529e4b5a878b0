#include "common/rpc/prefix_report_proto.h"

#include <algorithm>

namespace baton {
namespace {

template <typename Hashes>
std::vector<uint64_t> Bounded(const Hashes& hashes) {
  const auto count = std::min<std::ptrdiff_t>(hashes.size(), kMostReportedBlocks);
  return {hashes.begin(), hashes.begin() + count};
}

}  // namespace

void PrefixReportToProto(const PrefixReport& report, worker::v1::CachedPrefixes* proto) {
  proto->set_whole(report.whole);
  proto->set_since(report.since);
  proto->set_version(report.version);
  proto->set_stride(report.stride);
  proto->mutable_added()->Add(report.added.begin(), report.added.end());
  proto->mutable_removed()->Add(report.removed.begin(), report.removed.end());
}

PrefixReport PrefixReportFromProto(const worker::v1::CachedPrefixes& proto) {
  return {.whole = proto.whole(),
          .since = proto.since(),
          .version = proto.version(),
          .stride = std::max(1, proto.stride()),
          .added = Bounded(proto.added()),
          .removed = Bounded(proto.removed())};
}

}  // namespace baton
