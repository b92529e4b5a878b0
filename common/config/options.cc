#include "common/config/options.h"

#include <filesystem>

namespace baton {

std::string ServedModelName(const std::string& given, const std::string& model_dir) {
  if (!given.empty()) return given;
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(model_dir, error);
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

std::string ServedModelName(const RouterFlags& flags) {
  return ServedModelName(flags.served_model_name, flags.model_dir);
}

std::string ServedModelName(const WorkerFlags& flags) {
  return ServedModelName(flags.served_model_name, flags.model_dir);
}

const std::string& Advertised(const ServerFlags& flags, const std::string& listening) {
  return flags.advertise.empty() ? listening : flags.advertise;
}

Choices<DtypeFlag> ChoicesOf(DtypeFlag /*type*/) {
  return {{"auto", DtypeFlag::kAuto},
          {"float32", DtypeFlag::kFloat32},
          {"bfloat16", DtypeFlag::kBfloat16},
          {"float16", DtypeFlag::kFloat16}};
}

Choices<KvDtypeFlag> ChoicesOf(KvDtypeFlag /*type*/) {
  return {{"auto", KvDtypeFlag::kAuto},         {"float32", KvDtypeFlag::kFloat32},
          {"bfloat16", KvDtypeFlag::kBfloat16}, {"float16", KvDtypeFlag::kFloat16},
          {"int8", KvDtypeFlag::kInt8},         {"fp8", KvDtypeFlag::kFp8}};
}

Choices<DtypeFlag> CpuChoicesOf(DtypeFlag type) {
  Choices<DtypeFlag> choices = ChoicesOf(type);
  std::erase_if(choices, [](const auto& c) { return c.second == DtypeFlag::kFloat16; });
  return choices;
}

Choices<KvDtypeFlag> CpuChoicesOf(KvDtypeFlag type) {
  Choices<KvDtypeFlag> choices = ChoicesOf(type);
  std::erase_if(choices, [](const auto& c) { return c.second == KvDtypeFlag::kFloat16; });
  return choices;
}

Choices<DeviceFlag> ChoicesOf(DeviceFlag /*type*/) {
  return {{"cpu", DeviceFlag::kCpu}, {"cuda", DeviceFlag::kCuda}};
}

Choices<IsaFlag> ChoicesOf(IsaFlag /*type*/) {
  return {{"auto", IsaFlag::kAuto},
          {"amx", IsaFlag::kAmx},
          {"avx512_bf16", IsaFlag::kAvx512Bf16},
          {"avx512", IsaFlag::kAvx512},
          {"avx2", IsaFlag::kAvx2}};
}

Choices<QuantizationFlag> ChoicesOf(QuantizationFlag /*type*/) {
  return {{"none", QuantizationFlag::kNone}, {"fp8", QuantizationFlag::kFp8}};
}

Choices<PolicyFlag> ChoicesOf(PolicyFlag /*type*/) {
  return {{"fcfs", PolicyFlag::kFcfs},
          {"past-future", PolicyFlag::kPastFuture},
          {"remaining", PolicyFlag::kRemaining},
          {"boost", PolicyFlag::kBoost}};
}

Choices<RoutingFlag> ChoicesOf(RoutingFlag /*type*/) {
  return {{"load", RoutingFlag::kLoad},
          {"prefix", RoutingFlag::kPrefix},
          {"remaining", RoutingFlag::kRemaining},
          {"score", RoutingFlag::kScore}};
}

Choices<AsyncSchedulingFlag> ChoicesOf(AsyncSchedulingFlag /*type*/) {
  return {{"auto", AsyncSchedulingFlag::kAuto},
          {"on", AsyncSchedulingFlag::kOn},
          {"off", AsyncSchedulingFlag::kOff}};
}

Choices<SpeculativeFlag> ChoicesOf(SpeculativeFlag /*type*/) {
  return {{"auto", SpeculativeFlag::kAuto},
          {"none", SpeculativeFlag::kNone},
          {"ngram", SpeculativeFlag::kNgram},
          {"draft", SpeculativeFlag::kDraft}};
}

Choices<KvTransportFlag> ChoicesOf(KvTransportFlag /*type*/) {
  return {{"auto", KvTransportFlag::kAuto},
          {"grpc", KvTransportFlag::kGrpc},
          {"nccl", KvTransportFlag::kNccl},
          {"cuda_ipc", KvTransportFlag::kCudaIpc}};
}

Choices<RunawayFlag> ChoicesOf(RunawayFlag /*type*/) {
  return {{"off", RunawayFlag::kOff}, {"warn", RunawayFlag::kWarn}, {"end", RunawayFlag::kEnd}};
}
Choices<IgnoreEosFlag> ChoicesOf(IgnoreEosFlag /*type*/) {
  return {{"allow", IgnoreEosFlag::kAllow},
          {"warn", IgnoreEosFlag::kWarn},
          {"refuse", IgnoreEosFlag::kRefuse}};
}

bool SchedulesAsync(const EngineFlags& flags) {
  if (flags.async_scheduling != AsyncSchedulingFlag::kAuto) {
    return flags.async_scheduling == AsyncSchedulingFlag::kOn;
  }
  return flags.device == DeviceFlag::kCuda;
}

}  // namespace baton
