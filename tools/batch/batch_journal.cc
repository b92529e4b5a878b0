#include "tools/batch/batch_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "tools/batch/answer_line.h"
#include "tools/serve/child_process.h"

namespace baton::batch {
namespace {

// `number` counts from 1.
using OnLine = std::function<absl::Status(int64_t number, const std::string& text)>;

absl::Status NotOurs(const std::string& path, int64_t line) {
  return UsageError(
      absl::StrCat(path, ":", line, " is no answer of a batch"),
      "answers go behind those that a file has, and this one holds something else; it "
      "is left as it is",
      "another file for the answers");
}

// Calls `take` with each whole line. The result is what stands behind the last of them.
absl::StatusOr<std::string> ForEachLine(const std::string& path, const OnLine& take) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    if (file.eof()) return text;
    BATON_RETURN_IF_ERROR(take(number, text));
  }
  // Taken for the end of the file, it would have lines asked again whose answers stand behind it.
  if (!file.is_open() || file.bad()) {
    return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("cannot read ", path));
  }
  return std::string();
}

// So that nothing is cut off a file that somebody named by mistake.
absl::Status CheckIsJournal(const std::string& path) {
  int64_t lines = 0;
  BATON_ASSIGN_OR_RETURN(const std::string rest,
                         ForEachLine(path, [&](int64_t number, const std::string& text) {
                           lines = number;
                           if (number > 1 || HeadOfAnswer(text)) return absl::OkStatus();
                           return NotOurs(path, number);
                         }));
  const std::string_view expected = kAnswerBegin.substr(0, rest.size());
  return std::string_view(rest).starts_with(expected) ? absl::OkStatus() : NotOurs(path, lines + 1);
}

// Whether answers can go on there. What is no file is not read: a pipe would wait for somebody who
// writes, and a device may have no end.
absl::Status CheckPlace(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status found = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(found)) {
    return UsageError(path, "that is a folder", "a file in it for the answers");
  }
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return UsageError(path, "what is done is read from the answers, so they have to be a file",
                      "a path on a disk");
  }
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.get() >= 0) return absl::OkStatus();
  const int error = errno;
  if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot open ", path));
  }
  return UsageError(path, std::strerror(error), "the path of a file that can be written");
}

absl::Status SyncFile(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0 && fdatasync(file.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path, " to the disk"));
}

absl::Status CopyGood(const std::string& path, LineFile* to) {
  return ForEachLine(path,
                     [&](int64_t, const std::string& text) {
                       const auto head = HeadOfAnswer(text);
                       return !head || head->failed ? absl::OkStatus() : to->Append(text + "\n");
                     })
      .status();
}

}  // namespace

absl::StatusOr<BatchJournal> BatchJournal::Open(const std::string& path, bool drop_failed) {
  BATON_RETURN_IF_ERROR(CheckPlace(path));
  BATON_RETURN_IF_ERROR(CheckIsJournal(path));
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  const int64_t before = error ? 0 : static_cast<int64_t>(size);
  BATON_ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path));
  BatchJournal journal(std::move(file));
  journal.cut_bytes_ = std::max<int64_t>(0, before - journal.file_.size());
  BATON_RETURN_IF_ERROR(journal.Read());
  if (!drop_failed || journal.failed_ == 0) return journal;
  BATON_RETURN_IF_ERROR(journal.ReplaceByGood());
  BATON_ASSIGN_OR_RETURN(BatchJournal good, Open(path, /*drop_failed=*/false));
  good.cut_bytes_ = journal.cut_bytes_;
  good.dropped_ = journal.failed_;
  return good;
}

absl::Status BatchJournal::Read() {
  const auto read =
      ForEachLine(file_.path(), [&](int64_t number, const std::string& text) -> absl::Status {
        const auto head = HeadOfAnswer(text);
        if (!head) return NotOurs(file_.path(), number);
        if (!done_.insert(head->key).second) {
          return UsageError(
              absl::StrCat(file_.path(), ":", number, " is a second answer to a line"),
              "expected one answer to each", "another file for the answers");
        }
        failed_ += head->failed ? 1 : 0;
        return absl::OkStatus();
      });
  return read.status();
}

absl::Status BatchJournal::ReplaceByGood() const {
  // A link stays, and the answers stay on the file system that it points to.
  std::error_code error;
  const std::string path = std::filesystem::canonical(file_.path(), error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot replace ", file_.path()));
  }
  const std::string good = path + ".good";
  std::filesystem::remove(good, error);
  {
    BATON_ASSIGN_OR_RETURN(LineFile out, LineFile::Open(good));
    BATON_RETURN_IF_ERROR(CopyGood(path, &out));
    BATON_RETURN_IF_ERROR(SyncFile(good));
  }
  std::filesystem::rename(good, path, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot replace ", path));
}

absl::Status BatchJournal::Add(const LineKey& key, bool failed, std::string_view line) {
  BATON_RETURN_IF_ERROR(file_.Append(line));
  done_.insert(key);
  failed_ += failed ? 1 : 0;
  return absl::OkStatus();
}

absl::Status BatchJournal::Sync() const { return SyncFile(file_.path()); }

}  // namespace baton::batch
