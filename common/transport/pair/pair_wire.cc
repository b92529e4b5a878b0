#include "common/transport/pair/pair_wire.h"

#include <utility>

#include "common/rpc/generation.h"

namespace baton {
namespace {

worker_pb::ParcelOutcome ToProto(ParcelOutcome outcome) {
  switch (outcome) {
    case ParcelOutcome::kWritten:
      return worker_pb::PARCEL_OUTCOME_WRITTEN;
    case ParcelOutcome::kDiscarded:
      return worker_pb::PARCEL_OUTCOME_DISCARDED;
    case ParcelOutcome::kVoid:
      return worker_pb::PARCEL_OUTCOME_VOID;
    case ParcelOutcome::kBroken:
      break;
  }
  return worker_pb::PARCEL_OUTCOME_BROKEN;
}

ParcelOutcome FromProto(worker_pb::ParcelOutcome outcome) {
  switch (outcome) {
    case worker_pb::PARCEL_OUTCOME_WRITTEN:
      return ParcelOutcome::kWritten;
    case worker_pb::PARCEL_OUTCOME_DISCARDED:
      return ParcelOutcome::kDiscarded;
    case worker_pb::PARCEL_OUTCOME_VOID:
      return ParcelOutcome::kVoid;
    default:
      return ParcelOutcome::kBroken;
  }
}

void Fill(const PairHello& hello, worker_pb::PairRequest* proto) {
  worker_pb::PairHello* to = proto->mutable_hello();
  to->set_incarnation(hello.incarnation);
  KvShapeToProto(hello.shape, to->mutable_layout());
  to->set_model_fingerprint(hello.model_fingerprint);
  to->set_way(hello.way);
  to->set_version(hello.version);
  to->set_checksum(hello.checksum);
}

void Fill(const PairReady& ready, worker_pb::PairRequest* proto) {
  proto->mutable_ready()->set_epoch(ready.epoch);
}

void Fill(const PairAnnounce& announce, worker_pb::PairRequest* proto) {
  worker_pb::PairAnnounce* to = proto->mutable_announce();
  to->set_epoch(announce.epoch);
  to->set_number(announce.plan.number);
  to->set_bytes(announce.plan.bytes);
  TicketToProto(announce.plan.ticket, to->mutable_ticket());
  for (const ParcelPart& part : announce.plan.parts) {
    worker_pb::ParcelPart* row = to->add_parts();
    row->set_ordinal(part.ordinal);
    row->set_offset(part.offset);
    row->set_size(part.size);
  }
}

template <typename Proto>
void Fill(const PairAbort& abort, Proto* proto) {
  proto->mutable_abort()->set_epoch(abort.epoch);
  proto->mutable_abort()->set_why(abort.why);
}

void Fill(const PairAborted& aborted, worker_pb::PairRequest* proto) {
  proto->mutable_aborted()->set_epoch(aborted.epoch);
}

void Fill(const PairEpoch& epoch, worker_pb::PairResponse* proto) {
  worker_pb::PairEpoch* to = proto->mutable_epoch();
  to->set_epoch(epoch.epoch);
  to->set_unique_id(epoch.unique_id);
  to->set_incarnation(epoch.incarnation);
  to->set_version(epoch.version);
  to->set_parcel_bytes(epoch.parcel_bytes);
}

void Fill(const PairReady& ready, worker_pb::PairResponse* proto) {
  proto->mutable_ready()->set_epoch(ready.epoch);
}

void Fill(const PairGo& go, worker_pb::PairResponse* proto) {
  proto->mutable_go()->set_epoch(go.epoch);
  proto->mutable_go()->set_number(go.number);
}

void Fill(const PairDone& done, worker_pb::PairResponse* proto) {
  proto->mutable_done()->set_epoch(done.epoch);
  proto->mutable_done()->set_number(done.number);
  proto->mutable_done()->set_outcome(ToProto(done.outcome));
}

std::optional<ToReceiver> AnnounceFromProto(const worker_pb::PairAnnounce& proto) {
  const std::optional<Ticket> ticket = TicketFromProto(proto.ticket());
  if (!ticket) return std::nullopt;
  PairAnnounce announce{.epoch = proto.epoch(), .plan = {}};
  announce.plan.number = proto.number();
  announce.plan.bytes = proto.bytes();
  announce.plan.ticket = *ticket;
  for (const worker_pb::ParcelPart& part : proto.parts()) {
    announce.plan.parts.push_back({part.ordinal(), part.offset(), part.size()});
  }
  return announce;
}

}  // namespace

worker::v1::PairRequest PairMessageToProto(const ToReceiver& message) {
  worker_pb::PairRequest proto;
  std::visit([&](const auto& what) { Fill(what, &proto); }, message);
  return proto;
}

worker::v1::PairResponse PairMessageToProto(const ToSender& message) {
  worker_pb::PairResponse proto;
  std::visit([&](const auto& what) { Fill(what, &proto); }, message);
  return proto;
}

std::optional<ToReceiver> PairMessageFromProto(const worker::v1::PairRequest& proto) {
  switch (proto.message_case()) {
    case worker_pb::PairRequest::kHello:
      return PairHello{.incarnation = proto.hello().incarnation(),
                       .shape = KvShapeFromProto(proto.hello().layout()),
                       .model_fingerprint = proto.hello().model_fingerprint(),
                       .way = proto.hello().way(),
                       .version = proto.hello().version(),
                       .checksum = proto.hello().checksum()};
    case worker_pb::PairRequest::kReady:
      return PairReady{proto.ready().epoch()};
    case worker_pb::PairRequest::kAnnounce:
      return AnnounceFromProto(proto.announce());
    case worker_pb::PairRequest::kAbort:
      return PairAbort{proto.abort().epoch(), proto.abort().why()};
    case worker_pb::PairRequest::kAborted:
      return PairAborted{proto.aborted().epoch()};
    default:
      return std::nullopt;
  }
}

std::optional<ToSender> PairMessageFromProto(const worker::v1::PairResponse& proto) {
  switch (proto.message_case()) {
    case worker_pb::PairResponse::kEpoch:
      return PairEpoch{.epoch = proto.epoch().epoch(),
                       .unique_id = proto.epoch().unique_id(),
                       .incarnation = proto.epoch().incarnation(),
                       .version = proto.epoch().version(),
                       .parcel_bytes = proto.epoch().parcel_bytes()};
    case worker_pb::PairResponse::kReady:
      return PairReady{proto.ready().epoch()};
    case worker_pb::PairResponse::kGo:
      return PairGo{proto.go().epoch(), proto.go().number()};
    case worker_pb::PairResponse::kDone:
      return PairDone{proto.done().epoch(), proto.done().number(),
                      FromProto(proto.done().outcome())};
    case worker_pb::PairResponse::kAbort:
      return PairAbort{proto.abort().epoch(), proto.abort().why()};
    default:
      return std::nullopt;
  }
}

}  // namespace baton
