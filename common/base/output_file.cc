#include "common/base/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

// N of /proc/self/fd/N, whatever name this process has there.
std::optional<int> OwnDescriptor(const std::string& path) {
  std::error_code unknown;  // then opening it says why
  const fs::path name(path);
  int descriptor = 0;
  if (!IsInProc(name) || !absl::SimpleAtoi(name.filename().string(), &descriptor) ||
      fs::canonical(name.parent_path(), unknown) != fs::canonical("/proc/self/fd", unknown)) {
    return std::nullopt;
  }
  return descriptor;
}

// An open file is written where it stands: to open it once more would begin at its start, and cut
// off what others wrote to it.
int OpenInPlace(const std::string& path) {
  const auto own = OwnDescriptor(path);
  if (own) return fcntl(*own, F_DUPFD_CLOEXEC, 0);
  return open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
}

// Of a path whose links were followed.
bool CannotBeReplaced(const std::string& target) {
  std::error_code unknown;  // then opening it says why
  const fs::file_status there = fs::status(target, unknown);
  return IsInProc(target) || (fs::exists(there) && !fs::is_regular_file(there));
}

int OpenBeside(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

}  // namespace

bool IsInProc(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  struct statfs info {};
  return statfs(folder.c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

std::filesystem::path FollowLinks(std::filesystem::path path) {
  std::error_code unknown;  // then it is as far as one can follow
  for (int links = 0; links < kMostLinks && !IsInProc(path); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, unknown);
    if (unknown) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path,
                                                               std::string_view suffix) {
  std::string target = FollowLinks(path);
  const bool in_place = CannotBeReplaced(target);
  std::error_code unknown;  // then opening it says why
  const bool links_have_no_end = !in_place && fs::is_symlink(target, unknown);
  if (links_have_no_end) return absl::ErrnoToStatus(ELOOP, absl::StrCat("cannot write ", path));
  std::string written = in_place ? target : absl::StrCat(target, std::string(suffix));
  std::unique_ptr<OutputFile> file(new OutputFile(path, std::move(target), std::move(written)));
  const int descriptor = in_place ? OpenInPlace(file->written_) : OpenBeside(file->written_);
  if (descriptor < 0) {
    const absl::Status failed = file->CannotWrite();
    file->Keep();  // there is none of ours
    return failed;
  }
  file->file_ = fdopen(descriptor, "w");
  if (file->file_ != nullptr) return file;
  const absl::Status failed = file->CannotWrite();
  close(descriptor);
  return failed;
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!keep_ && !in_place()) std::remove(written_.c_str());
}

absl::Status OutputFile::CannotWrite() const {
  const int error = errno;
  const std::string link = path_ == target_ ? "" : absl::StrCat(", for the link ", path_);
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", written_, link));
}

absl::Status OutputFile::Write(std::string_view bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size();
  return written ? absl::OkStatus() : CannotWrite();
}

absl::Status OutputFile::Flush() {
  return std::fflush(file_) == 0 ? absl::OkStatus() : CannotWrite();
}

absl::Status OutputFile::Finish() {
  BATON_RETURN_IF_ERROR(Flush());
  // Some file systems tell of a full disk only here.
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return CannotWrite();
  if (in_place()) return absl::OkStatus();
  if (std::rename(written_.c_str(), target_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename ", written_, " to ", target_));
  }
  Keep();
  return absl::OkStatus();
}

bool IsWrittenInPlace(const std::string& path) { return CannotBeReplaced(FollowLinks(path)); }

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes,
                            std::string_view suffix) {
  BATON_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path, suffix));
  BATON_RETURN_IF_ERROR(file->Write(bytes));
  return file->Finish();
}

}  // namespace baton
