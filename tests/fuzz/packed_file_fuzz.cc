// A file of packed weights: whatever its table says, images lie in its data, aligned and with the
// margin that vector loads may read.
#include <sys/stat.h>

#include <string>

#include "common/base/check.h"
#include "common/model/packed/packed_file.h"
#include "common/model/packed/packed_folder.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

void ReadImage(const PackedFile& file, const std::string& name) {
  const auto image = file.Find(name);
  if (!Accepted(image.status())) return;
  for (const auto part : image->parts) {
    BATON_CHECK(reinterpret_cast<uintptr_t>(part.data()) % kernels::kImageAlignment == 0) << name;
    const volatile std::byte* const bytes = part.data();
    for (size_t at = 0; at < part.size() + kernels::kImageMargin; ++at) (void)bytes[at];
  }
}

}  // namespace

FUZZ_TARGET(packed_file) {
  static const ScratchFolder scratch;
  static const PackedFolder folder = PackedFolder::Open(scratch.path()).value();
  const std::string path = folder.PathOf("f");
  folder.Remove("f");
  scratch.Write(path.substr(scratch.path().size() + 1), input);
  BATON_CHECK(chmod(path.c_str(), 0600) == 0);
  const auto file = PackedFile::Open(folder, "f", "weights");
  if (!Accepted(file.status())) return;
  BATON_CHECK((*file)->bytes() <= std::ssize(input));
  static_cast<void>(Accepted((*file)->CheckSums()));
  if (!(*file)->Populate([](int64_t) {}).ok()) return;
  for (const char* name : {"a", "b", ""}) ReadImage(**file, name);
}

}  // namespace baton::fuzz
