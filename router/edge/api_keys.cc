#include "router/edge/api_keys.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/config/tenant_name.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxFileBytes = size_t{4} << 20;

bool IsKey(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKeyBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

absl::Status WrongLine(int number, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", number, " ", std::string(what),
                   "; expected NAME:KEY, the key 1 to 256 visible characters of ASCII"));
}

absl::Status Refusal(std::string_view what) {
  return MakeError(absl::StatusCode::kUnauthenticated, {.reason = Reason::kInvalidApiKey}, what);
}

}  // namespace

absl::Status ApiKeys::Add(std::string_view line, int number) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return WrongLine(number, "has no colon");
  const std::string_view name = line.substr(0, colon);
  const std::string_view key = line.substr(colon + 1);
  if (!IsTenantName(name)) {
    return WrongLine(number,
                     absl::StrCat("names nobody who can be a tenant (", kTenantNameRule, ")"));
  }
  if (!IsKey(key)) return WrongLine(number, "has no such key behind its colon");
  Entry entry{.name = std::string(name), .digest = Sha256Hex(key)};
  // Without the names, which are the keys where somebody wrote KEY:NAME.
  if (std::ranges::count(entries_, entry.digest, &Entry::digest) > 0) {
    return WrongLine(number, "has the key of a line above; give each key once");
  }
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<ApiKeys> ApiKeys::Parse(std::string_view text) {
  ApiKeys keys;
  int number = 0;
  for (const absl::string_view whole :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty() || line.front() == '#') continue;
    BATON_RETURN_IF_ERROR(keys.Add({line.data(), line.size()}, number));
  }
  if (keys.entries_.empty()) {
    return absl::InvalidArgumentError("no line holds a key; expected lines NAME:KEY");
  }
  return keys;
}

std::optional<std::string> ApiKeys::NameOf(std::string_view key) const {
  const std::string digest = Sha256Hex(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    // All of them, so that the time says nothing of which one it is.
    if (IsSameDigest(entry.digest, digest)) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

absl::StatusOr<std::unique_ptr<ApiKeyFile>> ApiKeyFile::Open(
    std::string path, std::chrono::milliseconds reload_every) {
  std::unique_ptr<ApiKeyFile> file(new ApiKeyFile(std::move(path), reload_every));
  BATON_ASSIGN_OR_RETURN(ApiKeys keys, file->Read());
  {
    base::MutexLock lock(&file->mutex_);
    file->keys_ = std::make_shared<const ApiKeys>(std::move(keys));
  }
  file->thread_ = std::thread([file = file.get()] { file->Watch(); });
  return file;
}

ApiKeyFile::~ApiKeyFile() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<ApiKeys> ApiKeyFile::Read() const {
  // By read, since iterators throw where reading fails: a folder can be opened, too.
  std::ifstream file(path_, std::ios::binary);
  std::string text;
  std::array<char, 4096> piece;
  while (file && text.size() <= kMaxFileBytes) {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--api-keys ", path_, " has more than ",
                                                   kMaxFileBytes,
                                                   " bytes; give a file with fewer keys"));
  }
  if (!file.eof()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--api-keys ", path_, " cannot be read; expected ", "a file that this process may read"));
  }
  absl::StatusOr<ApiKeys> keys = ApiKeys::Parse(text);
  if (keys.ok()) return keys;
  return absl::InvalidArgumentError(
      absl::StrCat("--api-keys ", path_, ": ",
                   std::string(keys.status().message().data(), keys.status().message().size())));
}

// A pipe, as of a shell's substitution, holds what it holds once, and opening it again may wait for
// a writer for ever.
bool ApiKeyFile::MayChange() const {
  std::error_code unknown;  // then Read says what is wrong
  const auto type = std::filesystem::status(path_, unknown).type();
  return type != std::filesystem::file_type::fifo && type != std::filesystem::file_type::character;
}

void ApiKeyFile::Watch() {
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      const auto next = std::chrono::steady_clock::now() + reload_every_;
      while (!stopping_ && stopped_.WaitUntil(&mutex_, next)) {
      }
      if (stopping_) return;
    }
    if (MayChange()) Look();
  }
}

void ApiKeyFile::Look() {
  absl::StatusOr<ApiKeys> read = Read();
  if (!read.ok()) {
    std::string complaint(read.status().message().data(), read.status().message().size());
    if (complaint != complaint_) {
      spdlog::error("the API keys read before stay in use: {}", complaint);
    }
    complaint_ = std::move(complaint);
    return;
  }
  complaint_.clear();
  const bool seen_before = seen_ == *read;
  seen_ = *read;
  base::MutexLock lock(&mutex_);
  if (*read == *keys_ || !seen_before) return;
  keys_ = std::make_shared<const ApiKeys>(*std::move(read));
  spdlog::info("{} API keys are in use: {}", keys_->size(), path_);
}

absl::StatusOr<std::string> ApiKeyFile::NameOf(
    const std::vector<std::string>& authorization) const {
  const auto refuse = [this](std::string_view what) {
    ++refusals_;
    return Refusal(what);
  };
  if (authorization.empty()) {
    return refuse("a key is needed here; send authorization: Bearer KEY");
  }
  if (authorization.size() > 1) return refuse("there are several authorizations; send one");
  const absl::string_view value = authorization.front();
  const size_t space = value.find(' ');
  if (!absl::EqualsIgnoreCase(value.substr(0, space), "Bearer") ||
      space == absl::string_view::npos) {
    return refuse("the authorization is of another kind; send authorization: Bearer KEY");
  }
  std::shared_ptr<const ApiKeys> keys;
  {
    base::MutexLock lock(&mutex_);
    keys = keys_;
  }
  const absl::string_view key = absl::StripAsciiWhitespace(value.substr(space));
  std::optional<std::string> name = keys->NameOf({key.data(), key.size()});
  if (!name) return refuse("the key is not known here; check it, or ask whoever runs this service");
  return *std::move(name);
}

}  // namespace baton
