#include "tools/batch/batch_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"

namespace baton::batch {
namespace {

constexpr size_t kReadBytes = 1 << 20;

// Cuts a file into lines, of which one is in memory; of one that is too long, its beginning.
class LineCutter {
 public:
  // `text` is cut off behind kMaxLineBytes + 1 bytes; `bytes` is the true length.
  using OnLine = std::function<absl::Status(int64_t offset, int64_t bytes, std::string_view text)>;

  explicit LineCutter(OnLine on_line) : on_line_(std::move(on_line)) {}

  absl::Status Feed(std::string_view piece) {
    while (true) {
      const size_t end = piece.find('\n');
      Keep(piece.substr(0, end));
      if (end == std::string_view::npos) return absl::OkStatus();
      BATON_RETURN_IF_ERROR(End());
      piece.remove_prefix(end + 1);
    }
  }
  // The last line may lack its line break.
  absl::Status Finish() { return bytes_ > 0 ? End() : absl::OkStatus(); }

 private:
  void Keep(std::string_view bytes) {
    bytes_ += static_cast<int64_t>(bytes.size());
    const size_t room = static_cast<size_t>(kMaxLineBytes) + 1 - text_.size();
    text_.append(bytes.substr(0, room));
  }

  absl::Status End() {
    const absl::Status status = on_line_(offset_, bytes_, text_);
    offset_ += bytes_ + 1;
    bytes_ = 0;
    text_.clear();
    return status;
  }

  const OnLine on_line_;
  std::string text_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

template <typename T>
T Clamped(int64_t value) {
  return static_cast<T>(std::min<int64_t>(value, std::numeric_limits<T>::max()));
}

absl::StatusOr<UniqueFd> OpenRegular(const std::string& path) {
  // A named pipe would wait here for somebody who writes.
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    return UsageError(path, std::strerror(errno), "the path of a file with a request on each line");
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return UsageError(path, "the lines are not sent in their order, so it has to be a file",
                      "to write what comes from a pipe into a file first");
  }
  return file;
}

}  // namespace

absl::StatusOr<BatchInput> BatchInput::Open(const std::string& path, const BatchPart& part) {
  BATON_ASSIGN_OR_RETURN(UniqueFd file, OpenRegular(path));
  BatchInput input(path, std::move(file));
  absl::flat_hash_map<LineKey, int64_t> seen;
  int64_t number = 0;
  LineCutter cutter([&](int64_t offset, int64_t bytes, std::string_view text) -> absl::Status {
    ++number;
    if (IsBlank(text)) return absl::OkStatus();
    const BatchLine parsed = ParseBatchLine(text);
    InputLine line{
        .offset = offset, .bytes = bytes, .number = number, .key = KeyOf(parsed.custom_id, number)};
    const auto [first, is_new] = seen.try_emplace(line.key, number);
    if (!is_new) {
      return UsageError(absl::StrCat(path, ":", number, ": custom_id '", parsed.custom_id,
                                     "' stands in line ", first->second, " already"),
                        "answers are told apart by it, and nothing has been sent",
                        "a custom_id of its own for each line");
    }
    if (!part.Has(number - 1)) return absl::OkStatus();
    if (parsed.wrong.ok()) {
      const LineLengths lengths = LengthsOf(parsed, bytes);
      line.prompt = Clamped<uint32_t>(lengths.prompt);
      if (lengths.limit) line.limit = Clamped<int32_t>(*lengths.limit);
    }
    input.lines_.push_back(line);
    return absl::OkStatus();
  });
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const ssize_t got = read(input.file_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (got == 0) break;
    BATON_RETURN_IF_ERROR(
        cutter.Feed(std::string_view(buffer).substr(0, static_cast<size_t>(got))));
  }
  BATON_RETURN_IF_ERROR(cutter.Finish());
  return input;
}

absl::StatusOr<BatchLine> BatchInput::Read(const InputLine& line) const {
  // One byte more than a line may have is enough to see that it is too long.
  std::string text(static_cast<size_t>(std::min(line.bytes, kMaxLineBytes + 1)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(file_.get(), text.data() + done, text.size() - done,
                              line.offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  BatchLine parsed = ParseBatchLine(text);
  if (done == text.size() && KeyOf(parsed.custom_id, line.number) == line.key) return parsed;
  return absl::DataLossError(
      absl::StrCat(path_, ":", line.number,
                   ": the line is another one than at the start; expected a "
                   "file that is left as it is; type the same command again"));
}

}  // namespace baton::batch
