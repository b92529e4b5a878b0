#include "common/rpc/certificates.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using Provider = grpc::experimental::FileWatcherCertificateProvider;

// How often gRPC reads what we show it, in seconds; its least.
constexpr unsigned kShownEvery = 1;

absl::Status NoMemoryFile() {
  return absl::ResourceExhaustedError(
      absl::StrCat("certificates cannot be kept in memory: ", std::strerror(errno),
                   "; check the limit of open files"));
}

// A file in memory. Closed at the end.
class MemoryFile final {
 public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }

  // Called once. `version` becomes its time of modification, by which gRPC sees that a key and a
  // certificate that it read belong together.
  absl::Status Write(const std::string& text, int64_t version) {
    fd_ = memfd_create("baton-tls", MFD_CLOEXEC);
    if (fd_ < 0) return NoMemoryFile();
    const timespec time{.tv_sec = version, .tv_nsec = 0};
    const timespec times[2] = {time, time};
    const auto size = static_cast<ssize_t>(text.size());
    const bool written = write(fd_, text.data(), text.size()) == size && futimens(fd_, times) == 0;
    return written ? absl::OkStatus() : NoMemoryFile();
  }
  // Becomes `other` as a whole, under the path that it has.
  void TakeOver(MemoryFile* other) {
    if (fd_ < 0) {
      std::swap(fd_, other->fd_);
    } else {
      BATON_CHECK(dup3(other->fd_, fd_, O_CLOEXEC) == fd_) << std::strerror(errno);
    }
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  int fd_ = -1;
};

// One set of files. gRPC's provider takes whatever it reads, half a file too, and then has nothing
// to serve with. So it is shown copies in memory of what was found usable.
class Certificates final {
 public:
  static absl::StatusOr<Certificates*> Load(const TlsOptions& tls) {
    auto pems = ReadPems(tls);
    if (!pems.ok()) return pems.status();
    auto made = std::make_unique<Certificates>(tls);
    const absl::Status shown = made->Show(*std::move(pems));
    if (!shown.ok()) return shown;
    made->provider_ = std::make_shared<Provider>(made->key_.path(), made->cert_.path(),
                                                 made->ca_.path(), kShownEvery);
    return made.release();
  }
  explicit Certificates(TlsOptions tls) : tls_(std::move(tls)) {}

  const std::shared_ptr<Provider>& provider() const { return provider_; }
  std::shared_ptr<const Pems> in_use() const {
    base::MutexLock lock(&mutex_);
    return in_use_;
  }
  void Watch() {
    std::thread([this] {
      while (true) {
        std::this_thread::sleep_for(tls_.reload_every);
        Look();
      }
    }).detach();
  }

 private:
  void Look() {
    auto pems = ReadPems(tls_);
    if (pems.ok() && *pems == shown_) {
      failures_ = 0;
      return;
    }
    const absl::Status status = pems.ok() ? Show(*std::move(pems)) : pems.status();
    failures_ = status.ok() ? 0 : failures_ + 1;
    if (status.ok()) {
      spdlog::info("new certificates are in use for new connections: {}", tls_.cert_file);
    } else if (failures_ == 2) {  // the first may have come between two files being replaced
      spdlog::error("the certificates read before stay in use: {}", std::string(status.message()));
    }
  }
  // All or nothing. On failure another try follows, because `shown_` is not what the files hold.
  absl::Status Show(Pems pems) {
    ++version_;
    MemoryFile key, cert, ca;
    for (const auto& [file, text] :
         {std::pair(&key, &pems.key), std::pair(&cert, &pems.cert), std::pair(&ca, &pems.ca)}) {
      const absl::Status status = file->Write(*text, version_);
      if (!status.ok()) return status;
    }
    key_.TakeOver(&key);
    cert_.TakeOver(&cert);
    ca_.TakeOver(&ca);
    shown_ = std::move(pems);
    base::MutexLock lock(&mutex_);
    in_use_ = std::make_shared<const Pems>(shown_);
    return absl::OkStatus();
  }

  const TlsOptions tls_;
  // What follows belongs to the loading thread, then to the watching one.
  MemoryFile key_, cert_, ca_;
  Pems shown_;
  int64_t version_ = 0;
  int64_t failures_ = 0;  // in a row
  std::shared_ptr<Provider> provider_;

  mutable base::Mutex mutex_;
  std::shared_ptr<const Pems> in_use_ ABSL_GUARDED_BY(mutex_);  // is `shown_`, for any thread
};

using FileNames = std::tuple<std::string, std::string, std::string>;

struct AllCertificates {
  base::Mutex mutex;
  std::map<FileNames, Certificates*> loaded ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<const Certificates*> LoadedOf(const TlsOptions& tls) {
  static auto& all = *new AllCertificates;
  const FileNames names(tls.cert_file, tls.key_file, tls.ca_file);
  {
    base::MutexLock lock(&all.mutex);
    const auto found = all.loaded.find(names);
    if (found != all.loaded.end()) return found->second;
  }
  // The disk may be slow; two threads may both get here, and the first one's are used.
  auto loaded = Certificates::Load(tls);
  if (!loaded.ok()) return loaded.status();
  std::unique_ptr<Certificates> mine(*loaded);
  base::MutexLock lock(&all.mutex);
  const auto [at, inserted] = all.loaded.emplace(names, mine.get());
  if (inserted) mine.release()->Watch();
  return at->second;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::experimental::CertificateProviderInterface>> CertificatesOf(
    const TlsOptions& tls) {
  auto loaded = LoadedOf(tls);
  if (!loaded.ok()) return loaded.status();
  return (*loaded)->provider();
}

absl::StatusOr<PemsInUse> WatchPems(const TlsOptions& tls) {
  auto loaded = LoadedOf(tls);
  if (!loaded.ok()) return loaded.status();
  return PemsInUse([certificates = *loaded] { return certificates->in_use(); });
}

}  // namespace baton
