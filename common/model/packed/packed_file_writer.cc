#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/model/packed/packed_file.h"
#include "common/model/packed/packed_format.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

// Whether a failed sync_file_range says only that it did nothing. Any other reason is the disk's,
// and the system tells it once: nothing that is called later hears of it.
bool OnlyRefused(int error) {
  constexpr int kRefusals[] = {EINVAL, ESPIPE, ENOSYS, EPERM, EOPNOTSUPP, ENOMEM, EAGAIN, EINTR};
  return std::ranges::find(kRefusals, error) != std::end(kRefusals);
}

}  // namespace

absl::Status CheckPace(const WriteBudget& budget, int64_t written, base::Duration elapsed) {
  constexpr int kJudgedAfter = 20;  // of so many parts of the time, one
  if (written <= 0 || elapsed < budget.time / kJudgedAfter) return absl::OkStatus();
  const double share = static_cast<double>(written) /
                       static_cast<double>(std::max({budget.bytes, written, int64_t{1}}));
  const double seconds = base::Seconds(elapsed) / share;
  if (seconds <= base::Seconds(budget.time)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrFormat(
      "%d MiB took %.1f s, so all %d MiB would take %.0f s, and may take %.0f s", written >> 20,
      base::Seconds(elapsed), budget.bytes >> 20, seconds, base::Seconds(budget.time)));
}

PackedFileWriter::PackedFileWriter(const PackedFolder& folder, std::string name,
                                   std::string identity, const WriteBudget& budget, DiskCalls disk,
                                   OwnedFile file)
    : folder_(folder),
      name_(std::move(name)),
      identity_(std::move(identity)),
      budget_(budget),
      disk_(std::move(disk)),
      file_(std::move(file)),
      staging_(std::make_unique_for_overwrite<std::byte[]>(packed::kPieceBytes)) {}

absl::StatusOr<std::unique_ptr<PackedFileWriter>> PackedFileWriter::Create(
    const PackedFolder& folder, const std::string& name, const std::string& identity,
    const WriteBudget& budget, DiskCalls disk) {
  // What a process left that was killed goes first: somebody may still have it open.
  folder.Remove(TemporaryOf(name));
  BATON_RETURN_IF_ERROR(folder.CheckRoom(budget.bytes));
  BATON_ASSIGN_OR_RETURN(OwnedFile file, folder.MakeFile(TemporaryOf(name)));
  return std::unique_ptr<PackedFileWriter>(
      new PackedFileWriter(folder, name, identity, budget, std::move(disk), std::move(file)));
}

PackedFileWriter::~PackedFileWriter() {
  if (!committed_) folder_.Remove(TemporaryOf(name_));
}

std::string PackedFileWriter::Path() const { return folder_.PathOf(TemporaryOf(name_)); }

absl::Status PackedFileWriter::Write(const void* data, size_t bytes, int64_t offset) const {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(file_.get(), from, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::UnavailableError(
          absl::StrCat(Path(), ": ", std::strerror(written < 0 ? errno : ENOSPC)));
    }
    from += written;
    bytes -= static_cast<size_t>(written);
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status PackedFileWriter::Flush() {
  BATON_RETURN_IF_ERROR(folder_.CheckRoom(static_cast<int64_t>(staged_)));
  absl::StrAppendFormat(&sums_, "%08x", base::Crc32c({staging_.get(), staged_}));
  BATON_RETURN_IF_ERROR(Write(staging_.get(), staged_, written_));
  written_ += static_cast<int64_t>(std::exchange(staged_, 0));
  BATON_RETURN_IF_ERROR(KeepDiskBusy());
  const absl::Status pace = CheckPace(budget_, written_, clock_.Now() - begin_);
  if (pace.ok()) return pace;
  return absl::UnavailableError(absl::StrCat(Path(), ": ", std::string(pace.message())));
}

// Without this, the system would take all of a file at the pace of memory, and nobody would know
// how slow the disk is until the end.
absl::Status PackedFileWriter::KeepDiskBusy() const {
  constexpr auto kBehind = static_cast<int64_t>(8 * packed::kPieceBytes);
  BATON_RETURN_IF_ERROR(SyncRange(written_, SYNC_FILE_RANGE_WRITE));
  if (written_ <= kBehind) return absl::OkStatus();
  return SyncRange(written_ - kBehind, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                           SYNC_FILE_RANGE_WAIT_AFTER);
}

// Where the system does not do this, the end waits for all of it.
absl::Status PackedFileWriter::SyncRange(int64_t bytes, unsigned flags) const {
  if (disk_.sync_range(file_.get(), 0, bytes, flags) == 0 || OnlyRefused(errno)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(Path(), ": ", std::strerror(errno)));
}

absl::Status PackedFileWriter::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), packed::kPieceBytes - staged_);
    std::memcpy(staging_.get() + staged_, bytes.data(), count);
    staged_ += count;
    bytes = bytes.subspan(count);
    if (staged_ == packed::kPieceBytes) BATON_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status PackedFileWriter::AppendZeros(size_t bytes) {
  static constexpr std::byte kZeros[kernels::kImageMargin + kernels::kImageAlignment] = {};
  return Append({kZeros, bytes});
}

absl::Status PackedFileWriter::Add(const std::string& name, const kernels::PackedImage& image) {
  nlohmann::json parts = nlohmann::json::array();
  for (const std::span<const std::byte> part : image.parts) {
    parts.push_back({static_cast<uint64_t>(written_) + staged_, part.size()});
    BATON_RETURN_IF_ERROR(Append(part));
    const size_t odd = (part.size() + kernels::kImageMargin) % kernels::kImageAlignment;
    BATON_RETURN_IF_ERROR(
        AppendZeros(kernels::kImageMargin + (odd == 0 ? 0 : kernels::kImageAlignment - odd)));
  }
  const nlohmann::json entry = {{packed::kForm, image.form}, {packed::kParts, parts}};
  absl::StrAppend(&images_, images_.empty() ? "" : ",", nlohmann::json(name).dump(), ":",
                  entry.dump());
  return absl::OkStatus();
}

absl::Status PackedFileWriter::Commit() {
  if (staged_ > 0) BATON_RETURN_IF_ERROR(Flush());
  const std::string json =
      absl::StrCat("{\"", packed::kIdentity, "\":", nlohmann::json(identity_).dump(), ",\"",
                   packed::kSums, "\":\"", sums_, "\",\"", packed::kImages, "\":{", images_, "}}");
  const packed::Tail tail = {
      .data_bytes = static_cast<uint64_t>(written_),
      .json_bytes = json.size(),
      .json_sum = base::Crc32c(std::as_bytes(std::span(json.data(), json.size())))};
  BATON_RETURN_IF_ERROR(Write(json.data(), json.size(), written_));
  BATON_RETURN_IF_ERROR(Write(&tail, sizeof(tail), written_ + static_cast<int64_t>(json.size())));
  // Checksums are looked at once, so nothing that is renamed may be lost with the power, and they
  // have to be those of what the disk holds.
  if (disk_.sync(file_.get()) != 0) {
    return absl::UnavailableError(absl::StrCat(Path(), ": ", std::strerror(errno)));
  }
  (void)disk_.advise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  BATON_RETURN_IF_ERROR(folder_.Rename(TemporaryOf(name_), name_));
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace baton
