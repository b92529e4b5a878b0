#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/eos/line_file.h"
#include "tools/eos/collect/collected_answer.h"

namespace baton {

// What a folder of collected answers holds, by family and over all.
struct CollectCounts {
  struct Family {
    int64_t requests = 0;
    int64_t rows = 0;
    std::map<std::string, int64_t> ended;  // requests by finish reason
  };
  std::map<std::string, Family> families;
  int64_t requests = 0;
  int64_t rows = 0;
};

// The files of DIR that grow: rows.jsonl, projections.f32 and requests.jsonl. A request counts once
// its line of requests.jsonl is whole, which is written last; what an interruption left behind it
// in the other files is cut off when the folder is opened again. One process at a time. Not
// thread-safe.
class CollectStore final {
 public:
  static constexpr char kRows[] = "rows.jsonl";
  static constexpr char kRequests[] = "requests.jsonl";
  // Little-endian float32, [rows, width], in the order of rows.jsonl.
  static constexpr char kProjections[] = "projections.f32";

  // Goes on after what the folder holds. DATA_LOSS where its files do not fit each other.
  static absl::StatusOr<std::unique_ptr<CollectStore>> Open(const std::string& folder, bool hidden);

  bool Has(const std::string& request_id) const { return done_.contains(request_id); }
  // FAILED_PRECONDITION for products of another width than those before. After an error of the disk
  // nothing more may be added.
  absl::Status Add(const std::string& family, const std::string& request_id,
                   const std::string& finish_reason, const CollectedAnswer& answer);

  const CollectCounts& counts() const { return counts_; }
  int64_t width() const { return width_; }  // of the projections; 0 while there are none

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  CollectStore(std::string folder, LineFile requests)
      : folder_(std::move(folder)), requests_(std::move(requests)) {}

  std::string Path(const char* name) const { return folder_ + "/" + name; }
  absl::Status ReadRequests();
  absl::Status TakeRequest(const std::string& line, int64_t number);
  void Count(const std::string& family, const std::string& finish_reason, int64_t rows);
  absl::Status OpenRows();
  absl::Status OpenProjections();
  absl::Status AddProjections(const std::string& request_id, const CollectedAnswer& answer);

  const std::string folder_;
  LineFile requests_;
  std::optional<LineFile> rows_;
  File projections_{nullptr, &std::fclose};
  absl::flat_hash_set<std::string> done_;
  CollectCounts counts_;
  int64_t width_ = 0;
};

}  // namespace baton
