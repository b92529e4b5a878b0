#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/eos/log_upkeep.h"

namespace baton {

// What becomes of the parts of a log: the oldest are removed, the others compressed. A thread of
// its own at the lowest priority does it, far from the rows. Thread-safe.
//
// A part is never lost on the way: FILE.N goes when FILE.N.zst is whole and on the disk. One that
// cannot be compressed stays as it is and is not tried again by this object.
class PartKeeper final {
 public:
  // Begins with the parts that are there. Keeps `keep` of them, 1 or more.
  PartKeeper(const std::string& file, int32_t keep, std::shared_ptr<LogUpkeep> upkeep);
  // Ends within a piece of a file. A disk that hangs is left to the thread.
  ~PartKeeper();

  // There is a new part.
  void Wake();
  // Whether everything was done that Wake asked for.
  bool idle() const;

 private:
  // Shared with the thread, which outlives this when the disk hangs.
  struct Work {
    Work(std::string path, int32_t most, std::shared_ptr<LogUpkeep> counts)
        : file(std::move(path)), keep(most), upkeep(std::move(counts)) {}

    void Run();
    void RemoveOldest();
    // One file. False when there is none left to compress.
    bool CompressNext();
    bool stopping() const;

    const std::string file;
    const int32_t keep;
    const std::shared_ptr<LogUpkeep> upkeep;
    std::set<std::string> failed;  // Run's own; as many as there are parts

    mutable base::Mutex mutex;
    base::CondVar changed;
    bool wanted ABSL_GUARDED_BY(mutex) = true;
    bool busy ABSL_GUARDED_BY(mutex) = true;
    bool stop ABSL_GUARDED_BY(mutex) = false;
    bool ended ABSL_GUARDED_BY(mutex) = false;
  };

  const std::shared_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace baton
