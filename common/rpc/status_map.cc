#include "common/rpc/status_map.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace baton {
namespace {

constexpr char kDomain[] = "baton";

google::rpc::Status DetailsToProto(const absl::Status& status, const ErrorDetail& detail) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ReasonName(detail.reason)));
  info.set_domain(kDomain);
  for (const auto& [key, value] : detail.values) (*info.mutable_metadata())[key] = value;
  proto.add_details()->PackFrom(info);
  if (!detail.field.empty()) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(detail.field);
    violation->set_description(std::string(status.message()));
    proto.add_details()->PackFrom(bad);
  }
  if (detail.retry_after) {
    google::rpc::RetryInfo retry;
    const int64_t ms = detail.retry_after->count();
    retry.mutable_retry_delay()->set_seconds(ms / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
    proto.add_details()->PackFrom(retry);
  }
  return proto;
}

ErrorDetail DetailsFromProto(const google::rpc::Status& proto) {
  ErrorDetail detail;
  for (const auto& any : proto.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&info)) {
      if (info.domain() != kDomain) continue;
      detail.reason = ReasonFromName(info.reason());
      for (const auto& [key, value] : info.metadata()) detail.values.emplace_back(key, value);
    } else if (any.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      detail.field = bad.field_violations(0).field();
    } else if (any.UnpackTo(&retry)) {
      detail.retry_after = std::chrono::milliseconds(retry.retry_delay().seconds() * 1000 +
                                                     retry.retry_delay().nanos() / 1'000'000);
    }
  }
  return detail;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const ErrorDetail detail = DetailOf(status);
  if (detail.reason == Reason::kNone) return grpc::Status(code, std::string(status.message()));
  return grpc::Status(code, std::string(status.message()),
                      DetailsToProto(status, detail).SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  google::rpc::Status proto;
  if (!proto.ParseFromString(status.error_details())) {
    return absl::Status(code, status.error_message());
  }
  ErrorDetail detail = DetailsFromProto(proto);
  if (detail.reason == Reason::kNone) return absl::Status(code, status.error_message());
  return MakeError(code, std::move(detail), status.error_message());
}

}  // namespace baton
