// The control stream of a pair, in both directions.
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/transport/pair/pair_parcel.h"
#include "common/transport/pair/pair_wire.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

constexpr int64_t kMaxParcelBytes = int64_t{16} << 20;

// A plan that is taken fits its buffer, part by part.
void CheckPlan(const ParcelPlan& plan) {
  if (!Accepted(CheckParcelPlan(plan, kMaxParcelBytes))) return;
  const std::vector<int64_t> offsets = PartOffsets(plan.parts);
  BATON_CHECK(offsets.back() == plan.bytes && plan.bytes <= kMaxParcelBytes) << plan.bytes;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    BATON_CHECK(offsets[i] + plan.parts[i].size <= offsets[i + 1]) << "part " << i;
  }
  const ParcelHeader header = {.epoch = 1, .plan = plan};
  const std::string bytes = EncodeParcelHeader(header);
  const auto read = DecodeParcelHeader(std::as_bytes(std::span(bytes)));
  BATON_CHECK(read.ok() && CheckParcelHeader(*read, 1, plan).ok());
}

template <typename Proto>
void CheckPairMessage(std::string_view bytes) {
  Proto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto message = PairMessageFromProto(proto);
  if (!message) return;
  const Proto written = PairMessageToProto(*message);
  const auto again = PairMessageFromProto(written);
  BATON_CHECK(again.has_value() && again->index() == message->index());
  BATON_CHECK(BytesOf(PairMessageToProto(*again)) == BytesOf(written));
  if constexpr (std::is_same_v<Proto, worker::v1::PairRequest>) {
    if (const auto* announce = std::get_if<PairAnnounce>(&*message)) CheckPlan(announce->plan);
  }
}

}  // namespace

FUZZ_TARGET(pair) {
  if (TakeChoice(&input, 2) == 0) return CheckPairMessage<worker::v1::PairRequest>(input);
  CheckPairMessage<worker::v1::PairResponse>(input);
}

}  // namespace baton::fuzz
