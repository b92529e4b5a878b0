#include "common/eos/zstd_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// Rows shrink to about a tenth at this level; the next ones take longer for a few percent.
constexpr int kLevel = 3;
constexpr size_t kPiece = size_t{1} << 20;

absl::Status NotDone(std::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", std::string(what), " ", path));
}

// Bytes that were read, 0 at the end.
absl::StatusOr<size_t> ReadSome(int fd, const std::string& path, char* to, size_t room) {
  while (true) {
    const ssize_t n = read(fd, to, room);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) return NotDone("read", path);
  }
}

absl::Status WriteBytes(int fd, const std::string& path, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return NotDone("write", path);
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// Compresses what can be read from `in` into `out`.
absl::Status Compress(int in, const std::string& from, int out, const std::string& to,
                      const std::function<bool()>& stop) {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                   &ZSTD_freeCCtx);
  if (context == nullptr) return absl::ResourceExhaustedError("no memory to compress " + from);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::vector<char> piece(kPiece);
  std::vector<char> packed(ZSTD_CStreamOutSize());
  for (bool more = true; more;) {
    if (stop()) return absl::CancelledError("compressing " + from + " was stopped");
    BATON_ASSIGN_OR_RETURN(const size_t size, ReadSome(in, from, piece.data(), piece.size()));
    more = size > 0;
    ZSTD_inBuffer input{piece.data(), size, 0};
    size_t left = 1;
    while (input.pos < input.size || (!more && left > 0)) {
      ZSTD_outBuffer output{packed.data(), packed.size(), 0};
      left =
          ZSTD_compressStream2(context.get(), &output, &input, more ? ZSTD_e_continue : ZSTD_e_end);
      if (ZSTD_isError(left) != 0) {
        return absl::InternalError(
            absl::StrCat("cannot compress ", from, ": ", ZSTD_getErrorName(left)));
      }
      BATON_RETURN_IF_ERROR(WriteBytes(out, to, packed.data(), output.pos));
    }
  }
  // The other file is removed by whoever asked for this one.
  return fdatasync(out) == 0 ? absl::OkStatus() : NotDone("write", to);
}

// Gives the file `out` the time of the last write of `in`. Where that fails it only looks newer.
void KeepTime(int in, int out) {
  struct stat status {};
  if (fstat(in, &status) != 0) return;
  const struct timespec times[] = {status.st_atim, status.st_mtim};
  (void)futimens(out, times);
}

}  // namespace

absl::Status CompressFile(const std::string& from, const std::string& to,
                          const std::function<bool()>& stop) {
  const int in = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0) return NotDone("read", from);
  const absl::Cleanup close_in = [in] { close(in); };
  const std::string temporary = to + ".tmp";
  const int out = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) return NotDone("write", temporary);
  absl::Status done = Compress(in, from, out, temporary, stop);
  if (done.ok()) KeepTime(in, out);
  if (close(out) != 0 && done.ok()) done = NotDone("write", temporary);
  if (done.ok() && std::rename(temporary.c_str(), to.c_str()) != 0) done = NotDone("write", to);
  if (!done.ok()) unlink(temporary.c_str());
  return done;
}

struct ZstdReader::State {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context{ZSTD_createDCtx(), &ZSTD_freeDCtx};
  std::vector<char> packed = std::vector<char>(ZSTD_DStreamInSize());
  ZSTD_inBuffer input{packed.data(), 0, 0};
  int64_t bytes = 0;     // of the file that were read
  bool inside = true;    // a frame, or before the first one
  bool pending = false;  // the decoder holds what found no room
};

ZstdReader::ZstdReader(int fd, std::string path)
    : fd_(fd), path_(std::move(path)), state_(std::make_unique<State>()) {}

ZstdReader::~ZstdReader() = default;

bool ZstdReader::IsFrame(const char* bytes, size_t size) {
  static constexpr unsigned char kMagic[] = {0x28, 0xB5, 0x2F, 0xFD};
  if (size < sizeof(kMagic)) return false;
  for (size_t i = 0; i < sizeof(kMagic); ++i) {
    if (static_cast<unsigned char>(bytes[i]) != kMagic[i]) return false;
  }
  return true;
}

absl::StatusOr<bool> ZstdReader::Refill() {
  State& s = *state_;
  BATON_ASSIGN_OR_RETURN(const size_t size, ReadSome(fd_, path_, s.packed.data(), s.packed.size()));
  s.input = {s.packed.data(), size, 0};
  s.bytes += static_cast<int64_t>(size);
  if (size > 0) return true;
  if (!s.inside) return false;
  return absl::DataLossError(absl::StrCat(
      path_, ": its zstd frame has no end: the file was cut off after ", s.bytes,
      " bytes; expected a whole frame. What stands before that place can be read by zstd -dc"));
}

absl::StatusOr<size_t> ZstdReader::Read(char* to, size_t room) {
  State& s = *state_;
  if (s.context == nullptr) return absl::ResourceExhaustedError("no memory to read " + path_);
  while (true) {
    if (s.input.pos == s.input.size && !s.pending) {
      BATON_ASSIGN_OR_RETURN(const bool more, Refill());
      if (!more) return size_t{0};
    }
    ZSTD_outBuffer output{to, room, 0};
    const size_t left = ZSTD_decompressStream(s.context.get(), &output, &s.input);
    if (ZSTD_isError(left) != 0) {
      return absl::DataLossError(absl::StrCat(path_, " is damaged: ", ZSTD_getErrorName(left),
                                              " within its first ", s.bytes,
                                              " bytes; expected zstd frames"));
    }
    s.inside = left != 0;
    s.pending = s.inside && output.pos == output.size;
    if (output.pos > 0) return output.pos;
  }
}

}  // namespace baton
