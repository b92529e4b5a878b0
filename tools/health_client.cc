#include "tools/health_client.h"

#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

// Debian installs no generated code for grpc.health.v1, so its two messages are read and written
// by hand: request {string service = 1}, response {enum status = 1}.
namespace baton {
namespace {

constexpr uint32_t kServiceTag = (1 << 3) | 2;  // field 1, length-delimited
constexpr uint32_t kStatusTag = (1 << 3) | 0;   // field 1, varint

grpc::ByteBuffer EncodeRequest(const std::string& service) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    if (!service.empty()) {
      out.WriteTag(kServiceTag);
      out.WriteVarint32(static_cast<uint32_t>(service.size()));
      out.WriteString(service);
    }
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<Health> DecodeResponse(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return absl::InternalError("unreadable answer");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(slice.begin(), slice.end());
  }
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  uint32_t status = 0;
  if (!bytes.empty() && (in.ReadTag() != kStatusTag || !in.ReadVarint32(&status) || status > 3)) {
    return absl::InternalError("the answer is no grpc.health.v1.HealthCheckResponse");
  }
  return static_cast<Health>(status);
}

// Waits for the one completion; `deadline` is the call's own, so it comes.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const grpc::ByteBuffer& request,
                  std::chrono::system_clock::time_point deadline, grpc::ByteBuffer* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(deadline);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status;
}

}  // namespace

std::string_view HealthName(Health health) {
  switch (health) {
    case Health::kServing:
      return "SERVING";
    case Health::kNotServing:
      return "NOT_SERVING";
    case Health::kServiceUnknown:
      return "SERVICE_UNKNOWN";
    case Health::kUnknown:
      break;
  }
  return "UNKNOWN";
}

absl::StatusOr<Health> CheckHealth(const std::string& address, const std::string& service,
                                   base::Duration timeout, const HealthPeer& peer) {
  ChannelOptions options;
  options.tls = {.cert_file = peer.tls.cert, .key_file = peer.tls.key, .ca_file = peer.tls.ca};
  options.peer_role = peer.role;
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeChannel(address, options));
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout);
  grpc::ByteBuffer response;
  const grpc::Status status = Call(channel, EncodeRequest(service), deadline, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return DecodeResponse(response);
}

}  // namespace baton
