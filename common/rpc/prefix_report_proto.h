#pragma once

#include "baton/worker/v1/status.pb.h"
#include "common/base/prefix_report.h"

namespace baton {

void PrefixReportToProto(const PrefixReport& report, worker::v1::CachedPrefixes* proto);
// Of what a worker of another version may say, no more is taken than a report may have.
PrefixReport PrefixReportFromProto(const worker::v1::CachedPrefixes& proto);

}  // namespace baton
