#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace baton {

// Who may call, and by which key. Keys themselves are not kept, only their digests.
class ApiKeys final {
 public:
  // Reads lines NAME:KEY; empty ones and those that begin with # mean nothing. NAME is a tenant's,
  // KEY has 1 to 256 visible characters of ASCII. A name may have several keys, for a time in which
  // one follows the other. INVALID_ARGUMENT names the line, never a key.
  static absl::StatusOr<ApiKeys> Parse(std::string_view text);

  // The name of `key`, if it is one. Takes as long for any key of a length.
  std::optional<std::string> NameOf(std::string_view key) const;
  size_t size() const { return entries_.size(); }
  bool operator==(const ApiKeys&) const = default;

 private:
  struct Entry {
    std::string name;
    std::string digest;  // SHA-256, in hexadecimal
    bool operator==(const Entry&) const = default;
  };
  absl::Status Add(std::string_view line, int number);

  std::vector<Entry> entries_;
};

// The keys in a file, which is looked at every `reload_every`. What two looks have seen alike is
// taken: a file that is written in place is read half at times, and half a key is a key. Content
// that cannot serve is logged, and the keys read before stay in use. Thread-safe.
class ApiKeyFile final {
 public:
  // INVALID_ARGUMENT when the file cannot be read or used.
  static absl::StatusOr<std::unique_ptr<ApiKeyFile>> Open(
      std::string path, std::chrono::milliseconds reload_every = std::chrono::seconds(1));
  ~ApiKeyFile();
  ApiKeyFile(const ApiKeyFile&) = delete;
  ApiKeyFile& operator=(const ApiKeyFile&) = delete;

  // The name that a request's authorization gives: "Bearer KEY", once. UNAUTHENTICATED says what
  // was missing, and is counted.
  absl::StatusOr<std::string> NameOf(const std::vector<std::string>& authorization) const;
  int64_t refusals() const { return refusals_; }

  // What its thread does time and again; not beside it.
  void Look();

 private:
  ApiKeyFile(std::string path, std::chrono::milliseconds reload_every)
      : path_(std::move(path)), reload_every_(reload_every) {}
  absl::StatusOr<ApiKeys> Read() const;
  bool MayChange() const;
  void Watch();

  const std::string path_;
  const std::chrono::milliseconds reload_every_;
  mutable std::atomic<int64_t> refusals_{0};
  mutable base::Mutex mutex_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const ApiKeys> keys_ ABSL_GUARDED_BY(mutex_);
  std::optional<ApiKeys> seen_;  // at the last look; the watching thread's, as the next
  std::string complaint_;        // that was logged last
  std::thread thread_;
};

}  // namespace baton
