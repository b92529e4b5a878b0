#include "common/config/bind.h"
#include "common/config/standard_files.h"
#include "common/worker/worker_process.h"
#include "prefill_worker/prefill_role.h"

int main(int argc, char** argv) {
  baton::OpenStandardFiles();
  baton::WorkerFlags flags = baton::DefaultPrefillFlags();
  baton::FlagSet set("baton-prefill", "prefill",
                     "Prefill worker: computes prompts and hands their KV caches to decode "
                     "workers.");
  baton::BindWorker(&set, &flags);
  set.AddForeign("swap-space", "giving it to the decode workers, which preempt answers");
  set.AddForeign("draft-model", "giving it to the decode workers, which generate");
  if (const auto code = set.ParseOrExit(argc, argv)) return *code;
  return baton::RunWorker(
      {.role = baton::WorkerRole::kPrefill,
       .program = "baton-prefill",
       .service_names = {"baton.worker.v1.PrefillService", "baton.worker.v1.StatusService"},
       .make_services = baton::MakePrefillRole},
      flags);
}
