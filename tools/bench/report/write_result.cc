#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/output_path.h"
#include "tools/bench/report/result_json.h"

namespace baton::bench {

absl::Status WriteResult(const std::string& path, const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const std::string temporary = WrittenBefore(path, ".tmp");
  const bool in_place = temporary == path;
  const auto failed = [&](const char* what, int error, size_t written) {
    if (!in_place) std::remove(temporary.c_str());
    return absl::ErrnoToStatus(
        error, absl::StrCat("cannot ", what, " ", path, " (", written, " of ", text.size(),
                            " bytes written)", in_place ? "" : ": what stood there is as it was",
                            "; free space or give another path to --out"));
  };
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", temporary, " for --out"));
  }
  const size_t written = std::fwrite(text.data(), 1, text.size(), file);
  const int write_error = written == text.size() ? 0 : errno;
  const bool closed = std::fclose(file) == 0;
  if (write_error != 0) return failed("write", write_error, written);
  // What was buffered is written, and a full disk told of, at the latest here.
  if (!closed) return failed("write", errno, written);
  if (!in_place && std::rename(temporary.c_str(), path.c_str()) != 0) {
    return failed("replace", errno, written);
  }
  return absl::OkStatus();
}

}  // namespace baton::bench
