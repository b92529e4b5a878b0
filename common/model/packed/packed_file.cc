#include "common/model/packed/packed_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/model/packed/packed_format.h"
#include "common/model/parallel_pieces.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPopulatedAtOnce = size_t{64} << 20;
constexpr size_t kMostCopies = 64;
constexpr size_t kNoteBytes = 8192;  // more than any note has

std::string NoteOf(const std::string& name) { return name + ".checked"; }

// What no change of a file leaves as it is: nobody but the system sets the time of a change.
std::string StateOf(const struct stat& info) {
  return absl::StrCat("file ", info.st_ino, ", ", info.st_size, " bytes, written ",
                      info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ", changed ",
                      info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
}

// Reads checksums of eight hexadecimal digits each.
bool ParsePackedSums(const std::string& text, std::vector<uint32_t>& sums) {
  if (text.size() % packed::kSumDigits != 0) return false;
  for (size_t at = 0; at < text.size(); at += packed::kSumDigits) {
    const std::string digits = text.substr(at, packed::kSumDigits);
    if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
    sums.push_back(static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 16)));
  }
  return true;
}

std::string TextOf(const nlohmann::json& object, const char* name) {
  const auto entry = object.is_object() ? object.find(name) : object.end();
  return entry != object.end() && entry->is_string() ? entry->get<std::string>() : "";
}

}  // namespace

absl::Status PackedFile::Damaged(std::string_view why) const {
  return absl::DataLossError(absl::StrCat(path_, ": ", std::string(why)));
}

absl::StatusOr<std::unique_ptr<PackedFile>> PackedFile::Open(const PackedFolder& folder,
                                                             const std::string& name,
                                                             const std::string& identity) {
  BATON_ASSIGN_OR_RETURN(const OwnedFile file, folder.OpenFile(name));
  std::unique_ptr<PackedFile> opened(new PackedFile(folder.PathOf(name), name));
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return opened->Damaged(std::strerror(errno));
  opened->state_ = StateOf(info);
  BATON_RETURN_IF_ERROR(opened->Map(file.get(), static_cast<size_t>(info.st_size)));
  BATON_RETURN_IF_ERROR(opened->ReadTail(identity));
  return opened;
}

// Where the mapping begins at a multiple of huge pages, so do the file's pages in it.
absl::Status PackedFile::Map(int file, size_t bytes) {
  if (bytes < sizeof(packed::Tail)) {
    return Damaged(absl::StrCat("it has ", bytes, " bytes, fewer than any such file"));
  }
  const size_t reserved = bytes + kHugePage;
  void* const room =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return absl::ResourceExhaustedError(path_ + ": no room to map it");
  const auto first = reinterpret_cast<uintptr_t>(room);
  const uintptr_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
  void* const data =
      mmap(reinterpret_cast<void*>(begin), bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
  const int error = errno;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t end = (begin + bytes + page - 1) / page * page;
  if (data == MAP_FAILED) {
    munmap(room, reserved);
    return Damaged(absl::StrCat("it cannot be mapped: ", std::strerror(error)));
  }
  if (begin > first) munmap(room, begin - first);
  if (first + reserved > end) munmap(reinterpret_cast<void*>(end), first + reserved - end);
  file_ = {static_cast<const std::byte*>(data), bytes};
  // This is only advice: without huge pages everything still works.
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return absl::OkStatus();
}

PackedFile::~PackedFile() {
  if (!file_.empty()) munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

absl::Status PackedFile::ReadTail(const std::string& identity) {
  packed::Tail tail;
  const size_t before_tail = file_.size() - sizeof(tail);
  BATON_RETURN_IF_ERROR(BringIn(file_.last(sizeof(tail))));
  std::memcpy(&tail, file_.data() + before_tail, sizeof(tail));
  if (tail.magic != packed::kMagic || tail.data_bytes > before_tail ||
      tail.json_bytes != before_tail - tail.data_bytes) {
    return Damaged("it does not end as a file of packed weights does");
  }
  const auto json = file_.subspan(tail.data_bytes, tail.json_bytes);
  BATON_RETURN_IF_ERROR(BringIn(json));
  if (base::Crc32c(json) != tail.json_sum) return Damaged("the checksum of its table is wrong");
  data_ = file_.first(tail.data_bytes);
  return ReadJson({reinterpret_cast<const char*>(json.data()), json.size()}, identity);
}

absl::Status PackedFile::ReadJson(std::string_view text, const std::string& identity) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (const std::string found = TextOf(json, packed::kIdentity); found != identity) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " holds '", found, "', expected '", identity, "'"));
  }
  if (!ParsePackedSums(TextOf(json, packed::kSums), sums_) ||
      sums_.size() != packed::Pieces(data_.size())) {
    return Damaged(absl::StrCat("it has no list of ", packed::Pieces(data_.size()), " checksums"));
  }
  const auto images = json.find(packed::kImages);
  if (images == json.end() || !images->is_object()) return Damaged("it has no table of images");
  for (const auto& [name, entry] : images->items()) {
    const auto parts = entry.is_object() ? entry.find(packed::kParts) : entry.end();
    if (parts == entry.end() || !parts->is_array()) return Damaged(name + " has no parts");
    Image image = {.form = TextOf(entry, packed::kForm)};
    for (const nlohmann::json& part : *parts) {
      if (!part.is_array() || part.size() != 2 || !part[0].is_number_unsigned() ||
          !part[1].is_number_unsigned()) {
        return Damaged(name + " has a part that is no pair of numbers");
      }
      const auto begin = part[0].get<uint64_t>();
      const auto bytes = part[1].get<uint64_t>();
      if (begin % kernels::kImageAlignment != 0 || begin > data_.size() ||
          bytes > data_.size() - begin || kernels::kImageMargin > data_.size() - begin - bytes) {
        return Damaged(absl::StrCat(name, " has a part at ", begin, " of ", bytes,
                                    " bytes, the file ", data_.size()));
      }
      image.parts.emplace_back(begin, bytes);
    }
    images_.emplace(name, std::move(image));
  }
  return absl::OkStatus();
}

absl::StatusOr<kernels::PackedImage> PackedFile::Find(const std::string& name) const {
  const auto found = images_.find(name);
  if (found == images_.end()) return Damaged("it lacks " + name);
  kernels::PackedImage image = {.form = found->second.form};
  for (const auto& [begin, bytes] : found->second.parts) {
    image.parts.push_back(data_.subspan(begin, bytes));
  }
  return image;
}

absl::Status PackedFile::BringIn(std::span<const std::byte> bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(bytes.data()) % page;
  void* const begin = const_cast<std::byte*>(bytes.data()) - before;
  if (madvise(begin, bytes.size() + before, MADV_POPULATE_READ) == 0) return absl::OkStatus();
  // Anything else is no fault of the file: kernels before 5.14 do not know this, or memory is short
  // now. Then pages come when they are first read.
  if (errno != EFAULT && errno != EHWPOISON && errno != EIO) return absl::OkStatus();
  return Damaged(absl::StrCat("it cannot be read: ", std::strerror(errno)));
}

absl::Status PackedFile::Populate(absl::FunctionRef<void(int64_t done)> progress) const {
  for (size_t begin = 0; begin < data_.size(); begin += kPopulatedAtOnce) {
    const size_t bytes = std::min(kPopulatedAtOnce, data_.size() - begin);
    BATON_RETURN_IF_ERROR(BringIn(data_.subspan(begin, bytes)));
    progress(static_cast<int64_t>(begin + bytes));
  }
  return absl::OkStatus();
}

absl::Status PackedFile::CheckSums() const {
  std::atomic<bool> equal{true};
  ForEachPiece(sums_.size(), [&](size_t piece) {
    const size_t begin = piece * packed::kPieceBytes;
    const auto bytes = data_.subspan(begin, std::min(packed::kPieceBytes, data_.size() - begin));
    if (base::Crc32c(bytes) != sums_[piece]) equal = false;
  });
  return equal ? absl::OkStatus() : Damaged("a checksum of its weights is wrong");
}

std::optional<std::vector<std::string>> PackedFile::CheckedFor(const PackedFolder& folder) const {
  const auto note = folder.OpenFile(NoteOf(name_));
  if (!note.ok()) return std::nullopt;
  std::string text(kNoteBytes, '\0');
  const ssize_t bytes = pread(note->get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.front() != state_) return std::nullopt;
  lines.pop_back();  // What has no end of line was not written to its end.
  if (!lines.empty()) lines.erase(lines.begin());
  return lines;
}

void PackedFile::NoteChecked(const PackedFolder& folder,
                             std::span<const std::string> copies) const {
  const std::string text = absl::StrCat(
      state_, "\n",
      absl::StrJoin(copies.last(std::min(copies.size(), kMostCopies)), "",
                    [](std::string* out, const std::string& copy) { *out += copy + "\n"; }));
  const auto note = folder.MakeFile(NoteOf(name_));
  if (note.ok() &&
      pwrite(note->get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    return;
  }
  spdlog::warn(
      "{}: checksums are right, but the note of that cannot be written; the next load verifies it "
      "again",
      path_);
}

}  // namespace baton
