// Beyond the contract of transports: what only a network can do, and peers that are not ours.
#include "common/transport/grpc_stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "baton/worker/v1/kv_transfer.grpc.pb.h"
#include "common/rpc/generation.h"
#include "common/rpc/status_map.h"
#include "tests/common/transport/push_fakes.h"
#include "tests/fakes/stuck_file.h"

namespace baton {
namespace {

TEST(GrpcStreamTest, AnUnreachablePeerShowsAtTheEnd) {
  base::SteadyClock clock;
  GrpcStreamTransport transport({}, &clock);
  auto observer = std::make_shared<Observer>();
  std::string address;
  {
    FakeInboxes inboxes;
    address = GrpcFixture(&inboxes).address();
  }
  auto push = transport.Open(address, {.ticket = Ticket::Draw(1)}, observer);
  EXPECT_EQ(observer->Wait().code(), absl::StatusCode::kUnavailable);
}

// Whoever opens a push, sends or cancels does not wait for the files of the certificates.
TEST(GrpcStreamTest, APushIsUsedAndCancelledWhileItsChannelIsBeingMade) {
  StuckFile certificate;
  base::SteadyClock clock;
  GrpcStreamTransport transport(
      {.tls = {.cert_file = certificate.path(), .key_file = "-", .ca_file = "-"}}, &clock);
  auto observer = std::make_shared<Observer>(), next = std::make_shared<Observer>();
  auto push = transport.Open("127.0.0.1:1", {.ticket = Ticket::Draw(1)}, observer);
  ASSERT_TRUE(certificate.WaitForReader());
  EXPECT_NE(push->waiting_since(), base::kNever);
  const std::string block(100, 'x');
  push->Send({{.ordinal = 0, .parts = {std::as_bytes(std::span(block))}}});
  push->Progress(3);
  push->Cancel();
  transport.Open("127.0.0.1:2", {.ticket = Ticket::Draw(2)}, next)->Commit({});
  EXPECT_FALSE(observer->over());
  certificate.Release();
  EXPECT_EQ(observer->Wait().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(next->Wait().code(), absl::StatusCode::kInvalidArgument);
}

// A cancel that comes before there is a channel is not lost.
TEST(GrpcStreamTest, APushThatIsCancelledAtOnceEnds) {
  FakeInboxes inboxes;
  GrpcFixture fixture(&inboxes);
  auto observer = std::make_shared<Observer>();
  fixture.transport().Open(fixture.address(), {.ticket = Ticket::Draw(1)}, observer)->Cancel();
  EXPECT_EQ(observer->Wait().code(), absl::StatusCode::kCancelled);
}

// A sender that protoc and gRPC made, and one that says nothing sensible.
absl::Status PushByStub(FakeInboxes* inboxes, const std::vector<worker_pb::PushRequest>& requests) {
  GrpcFixture fixture(inboxes);
  auto channel = MakeChannel(fixture.address(), {});
  EXPECT_TRUE(channel.ok());
  const auto stub = worker_pb::KvTransferService::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  worker_pb::PushResponse response;
  const auto writer = stub->Push(&context, &response);
  for (const worker_pb::PushRequest& request : requests) writer->Write(request);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(response.block_count(), status.ok() ? 1 : 0);
  return FromGrpcStatus(status);
}

std::vector<worker_pb::PushRequest> StockPush(const std::string& data) {
  std::vector<worker_pb::PushRequest> requests(3);
  TicketToProto(Ticket::Draw(1), requests[0].mutable_open()->mutable_ticket());
  worker_pb::PushPiece* piece = requests[1].mutable_piece();
  piece->set_ordinal(3);
  piece->set_data(data);
  piece->set_crc32c(base::Crc32c(std::as_bytes(std::span(data))));
  requests[2].mutable_commit()->set_block_count(1);
  return requests;
}

TEST(GrpcStreamTest, AStockSenderIsUnderstood) {
  FakeInboxes inboxes;
  const std::string data(100'000, 'x');
  EXPECT_TRUE(PushByStub(&inboxes, StockPush(data)).ok());
  EXPECT_EQ(inboxes.inbox_->blocks_[3], data);
}

TEST(GrpcStreamTest, APieceWithUnknownFieldsIsUnderstood) {
  FakeInboxes inboxes;
  auto requests = StockPush("abc");
  auto* piece = requests[1].mutable_piece();
  piece->GetReflection()->MutableUnknownFields(piece)->AddVarint(77, 5);
  EXPECT_TRUE(PushByStub(&inboxes, requests).ok());
  EXPECT_EQ(inboxes.inbox_->blocks_[3], "abc");
}

TEST(GrpcStreamTest, AMessageThatIsNoneOfThePushEndsIt) {
  FakeInboxes inboxes;
  auto requests = StockPush("abc");
  requests[1].Clear();
  requests[1].GetReflection()->MutableUnknownFields(&requests[1])->AddFixed32(77, 1);
  EXPECT_EQ(PushByStub(&inboxes, requests).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(inboxes.inbox_->pieces_, 0);
}

}  // namespace
}  // namespace baton
