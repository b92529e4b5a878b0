#include "common/base/version.h"
#include "common/config/flag_types.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"

namespace baton {

int VersionCommand(const Invocation& call) {
  bool as_json = false;
  FlagSet set("baton version", "version", "What this binary is.");
  set.Add(Common(With(SwitchFlag("json", &as_json), "Output", "as one JSON object")));
  if (const auto exit = call.Read(&set)) return *exit;
  const nlohmann::ordered_json json = {{"version", base::Version()},
                                       {"build", base::BuildKind()},
                                       {"compiler", base::Compiler()},
                                       {"grpc", grpc::Version()}};
  if (as_json) {
    Print(json.dump() + "\n");
    return 0;
  }
  Print("baton " + std::string(base::Version()) + " (" + std::string(base::BuildKind()) + ", " +
        std::string(base::Compiler()) + ", gRPC " + grpc::Version() + ")\n");
  return 0;
}

}  // namespace baton
