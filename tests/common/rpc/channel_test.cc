// Channels as their owners let go of them.
#include "common/rpc/channel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace baton {
namespace {

TEST(ChannelTest, TheLastOneInTheProcessMayBeLetGoInAReaction) {
  auto channel = MakeChannel("127.0.0.1:1", {});  // nobody listens there
  ASSERT_TRUE(channel.ok()) << channel.status();
  grpc::ClientContext* const context = new grpc::ClientContext;  // holds the channel too
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  absl::Notification alone, done;
  grpc::Status result;
  grpc::GenericStub(*channel).UnaryCall(context, "/a.Service/Call", {}, &request, &response,
                                        [&](grpc::Status status) {
                                          alone.WaitForNotification();
                                          result = std::move(status);
                                          delete context;
                                          done.Notify();
                                        });
  channel->reset();
  alone.Notify();
  done.WaitForNotification();
  EXPECT_EQ(result.error_code(), grpc::StatusCode::UNAVAILABLE) << result.error_message();

  // The threads that ran the reaction still serve.
  EXPECT_TRUE(MakeChannel("127.0.0.1:1", {}).ok());
}

}  // namespace
}  // namespace baton
