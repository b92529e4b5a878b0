// Probe files, which training writes and workers are given.
#include <string>

#include "common/formats/eos_probe_file.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {

FUZZ_TARGET(eos_probe) {
  static const ScratchFolder folder;
  const auto file = LoadEosProbeFile(folder.Write("probe.json", input));
  if (!Accepted(file.status())) return;
  const absl::Status checked = CheckEosProbe(file->probe);
  BATON_CHECK(checked.ok()) << checked.ToString();
  const std::string text = EosProbeFileText(*file);
  const auto again = LoadEosProbeFile(folder.Write("again.json", text));
  BATON_CHECK(again.ok()) << again.status().ToString();
  BATON_CHECK(EosProbeFileText(*again) == text);
}

}  // namespace baton::fuzz
