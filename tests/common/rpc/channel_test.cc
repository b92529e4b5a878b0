// Channels as their owners let go of them.
#include "common/rpc/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace baton {
namespace {

// Runs `body` in the reaction to a call, on every callback thread at once.
void InReactions(int calls, const std::function<void()>& body) {
  // Not by MakeChannel, which `body` may be the first to call.
  const auto channel = grpc::CreateCustomChannel("", nullptr, grpc::ChannelArguments());
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<grpc::ByteBuffer> responses(static_cast<size_t>(calls));
  absl::BlockingCounter over(calls);
  for (grpc::ByteBuffer& response : responses) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    grpc::GenericStub(channel).UnaryCall(contexts.back().get(), "/a.Service/Call", {}, &request,
                                         &response, [&](const grpc::Status&) {
                                           body();
                                           over.DecrementCount();
                                         });
  }
  over.Wait();
}

// First of all: what a process does once must not wait for the threads that it may run on.
TEST(ChannelTest, IsMadeInReactionsToo) {
  std::atomic<int> made = 0;
  InReactions(16, [&made] { made += MakeChannel("127.0.0.1:1", {}).ok() ? 1 : 0; });
  EXPECT_EQ(made, 16);
}

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
}

}  // namespace
}  // namespace baton
