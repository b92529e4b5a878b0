#include "common/rpc/callback_threads.h"

#include "absl/synchronization/notification.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace baton {
namespace {

// A channel without credentials reaches nothing: its calls fail at once, but through the threads.
const std::shared_ptr<grpc::Channel>* UserOfThreads() {
  const auto* channel = new std::shared_ptr<grpc::Channel>(
      grpc::CreateCustomChannel("", nullptr, grpc::ChannelArguments()));
  grpc::ClientContext context;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  absl::Notification done;
  grpc::GenericStub(*channel).UnaryCall(&context, "/", {}, &request, &response,
                                        [&done](const grpc::Status&) { done.Notify(); });
  done.WaitForNotification();
  return channel;
}

}  // namespace

void KeepCallbackThreads() {
  // Never let go of: at exit, too, a thread may be in a reaction. Leak checkers look for it here.
  [[gnu::used]] static const auto* const user = UserOfThreads();
}

}  // namespace baton
