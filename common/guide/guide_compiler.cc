#include "common/guide/guide_compiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/guide/guide_state.h"

namespace baton {
namespace {

// Masks that wait for a thread. One more is worked out by who needs it.
constexpr size_t kMostMasksWaiting = 4096;

std::string KeyOf(const GuideSpec& guide) {
  return absl::StrCat(static_cast<int>(guide.kind), ":", guide.text);
}

absl::Status NoGuides(const GuideSpec& guide, std::string_view why) {
  const std::string field(GuideFieldName(guide.kind));
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.reason = Reason::kUnsupportedField, .field = field},
                   absl::StrCat(field, " is not to be had with this model: ", std::string(why),
                                "; leave it out"));
}

}  // namespace

int MaskThreads(int cores) {
  constexpr int kCoresEach = 4;
  constexpr int kMost = 8;
  return std::clamp(cores / kCoresEach, 1, kMost);
}

GuideCompiler::GuideCompiler(std::shared_ptr<const Tokenizer> tokenizer,
                             GuideCompilerOptions options)
    : options_(std::move(options)),
      tokenizer_(std::move(tokenizer)),
      masks_(options_.mask_threads, kMostMasksWaiting),
      begins_(1, options_.most_waiting),
      replays_(1, options_.most_waiting),
      compiles_(options_.compile_threads, options_.most_waiting) {}

GuideCompiler::~GuideCompiler() = default;

// Compiles first: what they have begun goes on in the other lines.
void GuideCompiler::Stop() {
  compiles_.Stop();
  begins_.Stop();
  replays_.Stop();
}

absl::StatusOr<std::shared_ptr<const GuideVocabulary>> GuideCompiler::Vocabulary(
    const GuideSpec& guide) {
  base::MutexLock lock(&vocabulary_mutex_);
  if (vocabulary_ != nullptr) return vocabulary_;
  if (tokenizer_ == nullptr) return NoGuides(guide, "its directory has no tokenizer");
  if (options_.eos_ids.empty()) return NoGuides(guide, "it names no EOS id to end an answer with");
  BATON_ASSIGN_OR_RETURN(vocabulary_,
                         GuideVocabulary::Make(tokenizer_, options_.width, options_.eos_ids));
  return vocabulary_;
}

std::optional<GuideCompiler::Compiled> GuideCompiler::Kept(const std::string& key) {
  base::MutexLock lock(&cache_mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  cache_.splice(cache_.begin(), cache_, found->second);
  return found->second->compiled;
}

GuideCompiler::Compiled GuideCompiler::Compile(const GuideSpec& guide) {
  BATON_ASSIGN_OR_RETURN(const std::shared_ptr<const GuideVocabulary> vocabulary,
                         Vocabulary(guide));
  std::string key = KeyOf(guide);
  if (auto kept = Kept(key)) return *std::move(kept);
  ++compiled_;
  auto compiled = vocabulary->Compile(guide);
  if (!compiled.ok() && !absl::IsInvalidArgument(compiled.status())) return compiled;
  base::MutexLock lock(&cache_mutex_);
  if (by_key_.contains(key)) return compiled;  // another thread was as quick
  cache_.push_front({key, compiled});
  by_key_.emplace(std::move(key), cache_.begin());
  if (cache_.size() > options_.most_cached) {
    by_key_.erase(cache_.back().key);
    cache_.pop_back();
  }
  return compiled;
}

absl::Status GuideCompiler::Check(const GuideSpec& guide) { return Compile(guide).status(); }

absl::StatusOr<std::shared_ptr<SequenceGuide>> GuideCompiler::Make(const Beginning& beginning,
                                                                   const Compiled& compiled) {
  if (!beginning.wanted()) return absl::CancelledError("nobody wants the answer any more");
  BATON_RETURN_IF_ERROR(compiled.status());
  BATON_ASSIGN_OR_RETURN(CompiledGuide::State start, (*compiled)->Start());
  BATON_ASSIGN_OR_RETURN(const std::shared_ptr<const GuideVocabulary> vocabulary,
                         Vocabulary(beginning.guide));
  auto state = std::make_shared<GuideState>(beginning.guide.kind, std::move(start), vocabulary,
                                            &masks_, &watch_);
  BATON_RETURN_IF_ERROR(state->TakeAll(beginning.generated));
  return state;
}

void GuideCompiler::Start(const Beginning& beginning, const Compiled& compiled) {
  beginning.begun(Make(beginning, compiled));
}

TaskPool& GuideCompiler::LineOf(const Beginning& beginning) {
  return beginning.generated.empty() ? begins_ : replays_;
}

void GuideCompiler::CompileAndStart(const std::shared_ptr<Beginning>& beginning) {
  const Compiled compiled = beginning->wanted()
                                ? Compile(beginning->guide)
                                : absl::CancelledError("nobody wants the answer any more");
  const auto start = [this, beginning, compiled] { Start(*beginning, compiled); };
  if (!LineOf(*beginning).Submit(start)) start();
}

bool GuideCompiler::Begin(Beginning beginning) {
  const auto shared = std::make_shared<Beginning>(std::move(beginning));
  if (auto kept = Kept(KeyOf(shared->guide))) {
    return LineOf(*shared).Submit(
        [this, shared, compiled = *std::move(kept)] { Start(*shared, compiled); });
  }
  return compiles_.Submit([this, shared] { CompileAndStart(shared); });
}

}  // namespace baton
