#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {

void BindHandoff(FlagSet* set, HandoffFlags* flags) {
  const std::string group = "Handoff";
  set->Add(With(
      ChoiceFlag("kv-transport", &flags->transport), group,
      "how KV caches travel; auto: by NCCL between GPUs where it is found, else by gRPC; baton "
      "serve on GPUs: cuda_ipc"));
  set->Add(
      With(SwitchFlag("kv-checksum", &flags->checksum), group,
           "compare checksums of KV that moves between devices; --no-kv-checksum turns it off"));
  set->Add(With(Valued(TextFlag("nccl-library", &flags->nccl_library), "FILE"), group,
                "NCCL 2.28 or newer, for pairs and for tensor parallel on GPUs; default: "
                "libnccl.so.2 where the loader finds it"));
}

}  // namespace baton
