#include "common/eos/part_keeper.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/eos/log_parts.h"
#include "common/eos/zstd_file.h"

namespace baton {
namespace {

constexpr int kLowestPriority = 19;
// For the piece of a file that is under way when the log ends.
constexpr std::chrono::seconds kEndWithin{2};

absl::Status Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot remove ", path));
}

// Files that stood beside each other go together, rows first: summaries without rows harm nobody.
absl::Status RemovePart(const std::string& file, int64_t number) {
  absl::Status first;
  const std::string part = PartPath(file, number);
  const std::string requests = absl::StrCat(part, std::string(kRequestsSuffix));
  const std::string meta = absl::StrCat(part, std::string(kMetaSuffix));
  const std::string zstd(kZstdSuffix);
  // What a process leaves that was killed while it compressed is a .tmp.
  for (const std::string& path : {part, part + zstd, part + zstd + ".tmp", requests,
                                  requests + zstd, requests + zstd + ".tmp", meta}) {
    first.Update(Remove(path));
  }
  return first;
}

}  // namespace

PartKeeper::PartKeeper(const std::string& file, int32_t keep, std::shared_ptr<LogUpkeep> upkeep)
    : work_(std::make_shared<Work>(file, keep, std::move(upkeep))),
      thread_([work = work_] { work->Run(); }) {}

PartKeeper::~PartKeeper() {
  bool ended = false;
  {
    base::MutexLock lock(&work_->mutex);
    work_->stop = true;
    work_->changed.NotifyAll();
    const auto by = std::chrono::steady_clock::now() + kEndWithin;
    while (!work_->ended && work_->changed.WaitUntil(&work_->mutex, by)) {
    }
    ended = work_->ended;
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void PartKeeper::Wake() {
  base::MutexLock lock(&work_->mutex);
  work_->wanted = true;
  work_->changed.NotifyAll();
}

bool PartKeeper::idle() const {
  base::MutexLock lock(&work_->mutex);
  return !work_->wanted && !work_->busy;
}

bool PartKeeper::Work::stopping() const {
  base::MutexLock lock(&mutex);
  return stop;
}

void PartKeeper::Work::Run() {
  // In Linux a priority is a thread's own. Without the right to lower it, all the same.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
  while (true) {
    {
      base::MutexLock lock(&mutex);
      busy = false;
      while (!wanted && !stop) changed.Wait(&mutex);
      if (stop) break;
      wanted = false;
      busy = true;
    }
    // Parts may come faster than they are compressed; their number is kept all the same.
    do {
      RemoveOldest();
    } while (CompressNext());
  }
  base::MutexLock lock(&mutex);
  ended = true;
  changed.NotifyAll();
}

void PartKeeper::Work::RemoveOldest() {
  std::set<int64_t> numbers;
  for (const LogPart& part : PartsOf(file)) numbers.insert(part.number);
  for (const LogPart& part : PartsOf(file, kRequestsSuffix)) numbers.insert(part.number);
  // By how many there are, not by their numbers: some may be missing in between.
  auto excess = std::ssize(numbers) - keep;
  if (excess <= 0) return;
  absl::Status first;
  for (const int64_t number : numbers) {
    if (excess <= 0) break;
    const absl::Status removed = RemovePart(file, number);
    if (removed.ok()) --excess;  // else the next one goes in its place
    first.Update(removed);
  }
  upkeep->Note(UpkeepStep::kRemove, first);
}

bool PartKeeper::Work::CompressNext() {
  if (stopping()) return false;
  std::vector<LogPart> parts = PartsOf(file);
  for (LogPart& part : PartsOf(file, kRequestsSuffix)) parts.push_back(std::move(part));
  for (const LogPart& part : parts) {
    if (part.path.ends_with(kZstdSuffix) || failed.contains(part.path)) continue;
    absl::Status done = CompressFile(part.path, absl::StrCat(part.path, std::string(kZstdSuffix)),
                                     [this] { return stopping(); });
    if (absl::IsCancelled(done)) return false;
    if (done.ok()) done = Remove(part.path);
    upkeep->Note(UpkeepStep::kCompress, done);
    if (!done.ok()) failed.insert(part.path);
    return true;
  }
  return false;
}

}  // namespace baton
