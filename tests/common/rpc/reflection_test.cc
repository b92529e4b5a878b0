// What tools like grpcurl learn of a server that they know nothing about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using nlohmann::json;

// Debian installs no generated code of the reflection service, but gRPC's library has its messages.
std::unique_ptr<Message> NewReflectionMessage(const std::string& name) {
  static auto& factory = *new google::protobuf::DynamicMessageFactory;
  const auto* type =
      DescriptorPool::generated_pool()->FindMessageTypeByName("grpc.reflection.v1alpha." + name);
  EXPECT_NE(type, nullptr) << name;
  return std::unique_ptr<Message>(factory.GetPrototype(type)->New());
}

// The answer to one question, both as the protos' JSON.
json Reflect(const std::string& address, const json& question) {
  const auto request = NewReflectionMessage("ServerReflectionRequest");
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(question.dump(), request.get()).ok());
  grpc::TemplatedGenericStub<Message, grpc::ByteBuffer> stub(*MakeChannel(address, {}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(wait());
  call->WriteLast(*request, {}, nullptr);
  EXPECT_TRUE(wait());
  grpc::ByteBuffer bytes;
  call->Read(&bytes, nullptr);
  EXPECT_TRUE(wait());
  const auto response = NewReflectionMessage("ServerReflectionResponse");
  EXPECT_TRUE(
      (grpc::GenericDeserialize<grpc::ProtoBufferReader, Message>(&bytes, response.get()).ok()));
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  std::string text;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(*response, &text).ok());
  return json::parse(text);
}

// The services that the files of an answer define, by full name.
std::vector<std::string> ServicesIn(const json& answer) {
  std::vector<std::string> services;
  if (!answer.contains("fileDescriptorResponse")) return services;
  for (const json& encoded : answer["fileDescriptorResponse"]["fileDescriptorProto"]) {
    std::string bytes;
    EXPECT_TRUE(absl::Base64Unescape(encoded.get<std::string>(), &bytes));
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    for (const auto& service : file.service()) {
      services.push_back(file.package() + "." + service.name());
    }
  }
  return services;
}

TEST(ReflectionTest, EveryServiceThatIsListedIsDescribed) {
  worker::v1::PrefillService::Service service;
  const auto server = RpcServer::Start({}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  std::vector<std::string> listed;
  const json list = Reflect(address, {{"listServices", "*"}});
  for (const json& each : list["listServicesResponse"]["service"]) listed.push_back(each["name"]);
  EXPECT_THAT(listed,
              testing::IsSupersetOf({"baton.worker.v1.PrefillService", "grpc.health.v1.Health"}));
  for (const std::string& name : listed) {
    const json answer = Reflect(address, {{"fileContainingSymbol", name}});
    EXPECT_THAT(ServicesIn(answer), testing::Contains(name)) << answer;
  }
}

}  // namespace
}  // namespace baton
