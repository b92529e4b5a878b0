#include "tools/eos/collect/collect_store.h"

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "projections.f32 is written as it is");

absl::Status DoNotFit(const std::string& path, std::string_view found, std::string_view expected) {
  return absl::DataLossError(absl::StrCat(path, ": found ", std::string(found), ", expected ",
                                          std::string(expected),
                                          "; collect into another folder with --out"));
}

// Cuts the file at `bytes`; what lies behind it belongs to no finished request.
absl::Status CutAt(const std::string& path, uintmax_t bytes) {
  std::error_code error;
  std::filesystem::resize_file(path, bytes, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot cut ", path));
}

absl::Status CannotRead(const std::string& path) {
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("cannot read ", path));
}

// How many bytes the first `lines` lines of a file have.
absl::StatusOr<uintmax_t> BytesOfLines(const std::string& path, int64_t lines) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  uintmax_t bytes = 0;
  for (int64_t read = 0; read < lines; ++read) {
    if (!std::getline(file, line) || file.eof()) {
      if (!file.is_open() || file.bad()) return CannotRead(path);
      return DoNotFit(path, absl::StrCat(read, " rows"), absl::StrCat(lines, " or more"));
    }
    bytes += line.size() + 1;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectStore>> CollectStore::Open(const std::string& folder,
                                                                 bool hidden) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot create ", folder));
  BATON_ASSIGN_OR_RETURN(LineFile requests, LineFile::Open(absl::StrCat(folder, "/", kRequests)));
  std::unique_ptr<CollectStore> store(new CollectStore(folder, std::move(requests)));
  BATON_RETURN_IF_ERROR(store->ReadRequests());
  BATON_RETURN_IF_ERROR(store->OpenRows());
  if (hidden) BATON_RETURN_IF_ERROR(store->OpenProjections());
  return store;
}

absl::Status CollectStore::ReadRequests() {
  std::ifstream file(Path(kRequests));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    BATON_RETURN_IF_ERROR(TakeRequest(line, number));
  }
  // Taken for the end, it would have requests asked again whose answers are there.
  return file.is_open() && !file.bad() ? absl::OkStatus() : CannotRead(Path(kRequests));
}

absl::Status CollectStore::TakeRequest(const std::string& line, int64_t number) {
  const Json json = Json::parse(line, nullptr, false);
  const auto text = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_string()
               ? json[key].get<std::string>()
               : "";
  };
  const auto count = [&](const char* key) -> int64_t {
    return json.is_object() && json.contains(key) && json[key].is_number_integer()
               ? json[key].get<int64_t>()
               : -1;
  };
  const std::string id = text("request_id");
  const int64_t rows = count("output_length"), width = count("projection_width");
  if (id.empty() || rows < 1 || width < 0 || (number > 1 && width != width_)) {
    return DoNotFit(absl::StrCat(Path(kRequests), ":", number), "another line",
                    "that of a request, as this command writes it");
  }
  width_ = width;
  done_.insert(id);
  Count(text("family"), text("finish_reason"), rows);
  return absl::OkStatus();
}

void CollectStore::Count(const std::string& family, const std::string& finish_reason,
                         int64_t rows) {
  CollectCounts::Family& counts = counts_.families[family];
  ++counts.requests;
  counts.rows += rows;
  ++counts.ended[finish_reason];
  ++counts_.requests;
  counts_.rows += rows;
}

absl::Status CollectStore::OpenRows() {
  const std::string path = Path(kRows);
  if (std::filesystem::exists(path) || counts_.rows > 0) {
    BATON_ASSIGN_OR_RETURN(const uintmax_t bytes, BytesOfLines(path, counts_.rows));
    BATON_RETURN_IF_ERROR(CutAt(path, bytes));
  }
  BATON_ASSIGN_OR_RETURN(LineFile rows, LineFile::Open(path));
  rows_.emplace(std::move(rows));
  return absl::OkStatus();
}

absl::Status CollectStore::OpenProjections() {
  const std::string path = Path(kProjections);
  projections_.reset(std::fopen(path.c_str(), "abe"));
  if (projections_ == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  const auto bytes = static_cast<uintmax_t>(counts_.rows * width_) * sizeof(float);
  std::error_code error;
  const uintmax_t found = std::filesystem::file_size(path, error);
  if (error || found < bytes) {
    return DoNotFit(path, absl::StrCat(error ? 0 : found, " bytes"), absl::StrCat(bytes));
  }
  return CutAt(path, bytes);
}

absl::Status CollectStore::AddProjections(const std::string& request_id,
                                          const CollectedAnswer& answer) {
  if (counts_.requests > 0 && answer.width != width_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "request ", request_id, ": found ", answer.width, " probe products; expected ", width_,
        " as before; give all workers the same probe, or collect into another folder "
        "with --out"));
  }
  const std::vector<float>& values = answer.projections;
  const bool written = std::fwrite(values.data(), sizeof(float), values.size(),
                                   projections_.get()) == values.size() &&
                       std::fflush(projections_.get()) == 0;
  if (written) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write to ", Path(kProjections)));
}

absl::Status CollectStore::Add(const std::string& family, const std::string& request_id,
                               const std::string& finish_reason, const CollectedAnswer& answer) {
  if (projections_ != nullptr) BATON_RETURN_IF_ERROR(AddProjections(request_id, answer));
  BATON_RETURN_IF_ERROR(rows_->Append(answer.rows));
  BATON_RETURN_IF_ERROR(requests_.Append(answer.summary));
  width_ = answer.width;
  done_.insert(request_id);
  Count(family, finish_reason, answer.row_count);
  return absl::OkStatus();
}

}  // namespace baton
