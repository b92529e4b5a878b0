#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/text/tokenizer.h"

namespace baton::testing {

// What a GateTokenizer has seen, and whether it stands still. Thread-safe.
class Gate final {
 public:
  void Open() {
    base::MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  std::vector<std::string> seen() const {
    base::MutexLock lock(&mutex_);
    return seen_;
  }
  void Pass(std::string_view text) {
    base::MutexLock lock(&mutex_);
    seen_.emplace_back(text);
    while (!open_) changed_.Wait(&mutex_);
  }

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> seen_ ABSL_GUARDED_BY(mutex_);
};

// A tokenizer that notes each text and goes on with it once the gate is open.
class GateTokenizer final : public Tokenizer {
 public:
  GateTokenizer(std::unique_ptr<Tokenizer> real, Gate* gate)
      : real_(std::move(real)), gate_(gate) {}

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text, bool special) const override {
    gate_->Pass(text);
    return real_->Encode(text, special);
  }
  std::string_view TokenBytes(TokenId id) const override { return real_->TokenBytes(id); }
  std::string_view TokenText(TokenId id) const override { return real_->TokenText(id); }
  bool IsSpecial(TokenId id) const override { return real_->IsSpecial(id); }
  bool IsValid(TokenId id) const override { return real_->IsValid(id); }
  int vocab_size() const override { return real_->vocab_size(); }
  std::optional<TokenId> TokenToId(std::string_view token) const override {
    return real_->TokenToId(token);
  }
  bool DecodeDropsLeadingSpace() const override { return real_->DecodeDropsLeadingSpace(); }

 private:
  const std::unique_ptr<Tokenizer> real_;
  Gate* const gate_;
};

}  // namespace baton::testing
