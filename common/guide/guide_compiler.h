#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/guide/guide_vocabulary.h"
#include "common/guide/guide_watch.h"
#include "common/guide/task_pool.h"
#include "common/sample/guide_spec.h"
#include "common/sched/sequence_guide.h"
#include "common/text/tokenizer.h"

namespace baton {

struct GuideCompilerOptions {
  int32_t width = 0;  // of the model's logits
  std::vector<TokenId> eos_ids;
  int compile_threads = 1;
  int mask_threads = 1;
  size_t most_waiting = 256;  // answers that wait in each of the lines to begin
  size_t most_cached = 128;   // compiled ones that are kept
};

// Makes masks of guides: compiles them on threads of its own, keeps what was compiled by its
// content, and begins answers. Its vocabulary is made for the first guide, so that who sees none
// pays nothing. Thread-safe.
//
// Answers begin in three lines, each of which has threads of its own, so that none waits for what
// another costs: those whose guide is compiled and has tokens of theirs to take, which may be long;
// those whose guide is compiled and takes none, which is soon done; and those whose guide is still
// to be compiled, which then go on in one of the other two.
class GuideCompiler final {
 public:
  // `tokenizer` is null where the model has none: every guide is then refused.
  GuideCompiler(std::shared_ptr<const Tokenizer> tokenizer, GuideCompilerOptions options);
  // States must be gone by then, or not be asked any more.
  ~GuideCompiler();

  // How many guides were compiled so far, with or without success.
  int64_t compiled() const { return compiled_; }

  // No guide is begun from now on; those that wait are dropped without a call.
  void Stop();

  // Whether answers can follow this guide, on the caller's thread. INVALID_ARGUMENT with
  // INVALID_GUIDE, UNIMPLEMENTED with UNSUPPORTED_FIELD where there is no tokenizer or no EOS,
  // RESOURCE_EXHAUSTED with FULL where it could not be compiled now; only the first is kept.
  absl::Status Check(const GuideSpec& guide);

  using Begun = std::function<void(absl::StatusOr<std::shared_ptr<SequenceGuide>>)>;
  struct Beginning {
    GuideSpec guide;
    std::vector<TokenId> generated;  // that the answer has already
    std::function<bool()> wanted;    // asked when its turn comes, on any thread of ours
    Begun begun;
  };
  // Has `begun` called on a thread of ours, once, with the state of the answer, or why there is
  // none: CANCELLED where nobody wants it any more. False, without a call, when too many wait.
  bool Begin(Beginning beginning);

 private:
  using Compiled = absl::StatusOr<std::shared_ptr<const CompiledGuide>>;
  struct Entry {
    std::string key;
    Compiled compiled;
  };

  absl::StatusOr<std::shared_ptr<const GuideVocabulary>> Vocabulary(const GuideSpec& guide);
  std::optional<Compiled> Kept(const std::string& key);
  Compiled Compile(const GuideSpec& guide);
  // Where an answer begins whose guide is compiled.
  TaskPool& LineOf(const Beginning& beginning);
  void CompileAndStart(const std::shared_ptr<Beginning>& beginning);
  void Start(const Beginning& beginning, const Compiled& compiled);
  absl::StatusOr<std::shared_ptr<SequenceGuide>> Make(const Beginning& beginning,
                                                      const Compiled& compiled);

  const GuideCompilerOptions options_;
  base::Mutex vocabulary_mutex_;
  std::shared_ptr<const Tokenizer> tokenizer_ ABSL_GUARDED_BY(vocabulary_mutex_);
  std::shared_ptr<const GuideVocabulary> vocabulary_ ABSL_GUARDED_BY(vocabulary_mutex_);
  base::Mutex cache_mutex_;
  std::list<Entry> cache_ ABSL_GUARDED_BY(cache_mutex_);  // the one used last comes first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(cache_mutex_);
  std::atomic<int64_t> compiled_{0};
  GuideWatch watch_;
  TaskPool masks_;
  TaskPool begins_;
  TaskPool replays_;
  TaskPool compiles_;  // last: its tasks use the others
};

// How many threads work out masks on a machine of this many cores, beside those of the model.
int MaskThreads(int cores);

}  // namespace baton
