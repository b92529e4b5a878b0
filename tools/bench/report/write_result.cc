#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "tools/bench/report/result_json.h"

namespace baton::bench {

absl::Status WriteResult(const std::string& path, const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const absl::Status written = WriteWholeFile(path, text);
  if (written.ok()) return written;
  return absl::Status(written.code(), absl::StrCat(std::string(written.message()),
                                                   "; free space or give another path to --out"));
}

}  // namespace baton::bench
