#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "grpcpp/grpcpp.h"
#include "tools/bench/stop_on_signal.h"
#include "tools/client/no_server.h"
#include "tools/commands.h"
#include "tools/eos/collect/collect_flags.h"
#include "tools/eos/collect/collect_manifest.h"
#include "tools/eos/collect/collect_run.h"

namespace baton {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

absl::StatusOr<v1::GetModelInfoResponse> AskModel(const CollectFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto channel,
                         MakeChannel(flags.client.server, ChannelOptionsOf(flags.client)));
  grpc::ClientContext context;
  NameTenant(flags.client.as_tenant, &context);
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::GetModelInfoRequest request;
  request.set_model(flags.model);
  v1::GetModelInfoResponse info;
  const absl::Status status =
      FromGrpcStatus(v1::ModelService::NewStub(channel)->GetModelInfo(&context, request, &info));
  if (!status.ok()) return ExplainNoServer(status, flags.client.server);
  if (info.fingerprint().empty()) {
    return absl::UnavailableError(
        absl::StrCat(flags.client.server,
                     " sees no healthy decode worker; expected one, whose "
                     "model the manifest names; wait until it is ready"));
  }
  return info;
}

// The id that rows of the log name: a router tells the primary one first.
std::optional<TokenId> PrimaryEos(const v1::GetModelInfoResponse& info) {
  if (info.eos_tokens().empty()) return std::nullopt;
  return info.eos_tokens(0).id();
}

void TellLine(const std::string& line) { std::fputs(("  " + line + "\n").c_str(), stderr); }

// The requests of the grid that the folder has no answer to.
std::vector<CollectRequest> Missing(const std::vector<CollectRequest>& all,
                                    const CollectStore& store) {
  std::vector<CollectRequest> missing;
  for (const CollectRequest& request : all) {
    if (!store.Has(request.id)) missing.push_back(request);
  }
  return missing;
}

std::string Summary(const CollectFlags& flags, const CollectManifest& manifest,
                    const CollectResult& result) {
  return absl::StrCat(flags.out, ": ", manifest.counts.requests, " of ", manifest.requests,
                      " requests, ", manifest.counts.rows, " rows; ", result.asked,
                      " asked now, of which ", result.failed, " failed\n");
}

absl::StatusOr<int> Collect(const CollectFlags& flags, const bench::StopOnSignal& signal) {
  BATON_ASSIGN_OR_RETURN(const CollectPrompts prompts, ReadCollectPrompts(flags.prompts));
  const std::vector<CollectRequest> all = RequestsOf(prompts, flags.grid);
  BATON_ASSIGN_OR_RETURN(const auto client, GenerateClient::Connect(flags.client));
  CollectManifest manifest = {.prompts_path = flags.prompts,
                              .prompts_sha256 = prompts.sha256,
                              .prompts = static_cast<int64_t>(prompts.prompts.size()),
                              .grid = flags.grid,
                              .model = {},
                              .counts = {},
                              .width = 0,
                              .requests = static_cast<int64_t>(all.size()),
                              .failed = 0};
  BATON_ASSIGN_OR_RETURN(manifest.model, AskModel(flags));
  BATON_RETURN_IF_ERROR(CheckManifest(flags.out, manifest));
  BATON_ASSIGN_OR_RETURN(const auto store, CollectStore::Open(flags.out, flags.grid.hidden));
  const auto write = [&](int64_t failed) {
    manifest.counts = store->counts();
    manifest.width = store->width();
    manifest.failed = failed;
    return WriteManifest(flags.out, manifest);
  };
  BATON_RETURN_IF_ERROR(write(0));
  const CollectRun run = {.prompts = &prompts,
                          .grid = flags.grid,
                          .eos_token_id = PrimaryEos(manifest.model),
                          .concurrency = flags.concurrency,
                          .stop = &signal.stop(),
                          .tell = TellLine};
  const CollectResult result = RunCollect(run, Missing(all, *store), client.get(), store.get());
  const absl::Status written = write(result.failed);
  Print(Summary(flags, manifest, result));
  BATON_RETURN_IF_ERROR(result.gave_up);
  BATON_RETURN_IF_ERROR(written);
  const bool complete = manifest.counts.requests == manifest.requests;
  return ToInt(complete ? ExitCode::kOk : ExitCode::kRequestFailed);
}

// A line of the prompts that is wrong, or a folder of another set, is the user's to mend; what the
// server did is a request's failure; the rest is the disk.
ExitCode CodeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return ExitCode::kUsage;
  const bool server = absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) ||
                      absl::IsDeadlineExceeded(status) || absl::IsNotFound(status);
  return server ? ExitCode::kRequestFailed : ExitCode::kResources;
}

}  // namespace

int EosCollectCommand(const Invocation& call) {
  CollectFlags flags;
  FlagSet set(
      "baton eos collect", "eos",
      "Asks a running service each prompt with each seed at each temperature, and keeps the "
      "answers with\ntheir EOS figures: rows in the form of the EOS log, a line per request, "
      "and a manifest. A run that was\ninterrupted goes on where it was. Exit 0 when every "
      "request has its answer, else 1.");
  BindCollect(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const bench::StopOnSignal signal;
  const auto exit = Collect(flags, signal);
  if (exit.ok()) return *exit;
  return ReportFatal(set.program(), FatalOf(exit.status(), CodeOf(exit.status()), "cannot go on",
                                            "baton eos collect --help"));
}

}  // namespace baton
