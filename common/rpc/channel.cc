#include "common/rpc/channel.h"

#include <utility>
#include <vector>

#include "common/rpc/callback_threads.h"
#include "common/rpc/compression.h"
#include "common/rpc/credentials.h"
#include "common/rpc/keepalive.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_interceptor.h"

namespace baton {
namespace {

namespace experimental = grpc::experimental;

// Shows a key with each call. Credentials of calls would do so too, but not without TLS.
class KeyBearer final : public experimental::Interceptor {
 public:
  explicit KeyBearer(std::string value) : value_(std::move(value)) {}
  void Intercept(experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class KeyBearers final : public experimental::ClientInterceptorFactoryInterface {
 public:
  explicit KeyBearers(const std::string& key) : value_("Bearer " + key) {}
  experimental::Interceptor* CreateClientInterceptor(experimental::ClientRpcInfo*) override {
    return new KeyBearer(value_);  // gRPC deletes it
  }

 private:
  const std::string value_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const ChannelOptions& options) {
  auto credentials = MakeChannelCredentials(options.tls);
  if (!credentials.ok()) return credentials.status();
  KeepCallbackThreads();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  // In spite of its name this is the time that one attempt to connect may take; a busy machine
  // needs it.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // A worker is reached directly; a proxy of the environment must not stand between.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kUncompressed);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, kUnpackNothing);
  if (options.tls.enabled() && !options.peer_role.empty()) {
    arguments.SetSslTargetNameOverride(options.peer_role);
  }
  if (options.api_key.empty()) {
    return grpc::CreateCustomChannel(address, *credentials, arguments);
  }
  std::vector<std::unique_ptr<experimental::ClientInterceptorFactoryInterface>> bearers;
  bearers.push_back(std::make_unique<KeyBearers>(options.api_key));
  return experimental::CreateCustomChannelWithInterceptors(address, *credentials, arguments,
                                                           std::move(bearers));
}

}  // namespace baton
