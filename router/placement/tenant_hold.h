#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/mutex.h"
#include "router/placement/tenant_counter.h"

namespace baton {

// Where requests that were placed say that their attempt is over. Thread-safe.
class TenantReturns final {
 public:
  using Take = std::function<void(uint64_t id, const TokensServed& served)>;
  explicit TenantReturns(Take take) : take_(std::move(take)) {}
  void Return(uint64_t id, const TokensServed& served);
  // What comes back from now on is dropped.
  void Close();

 private:
  base::Mutex mutex_;
  Take take_ ABSL_GUARDED_BY(mutex_);
};

// What a placed request has of its tenant's bound of running requests. It is given back with this
// object, and what the attempt served is then charged to the tenant: nothing if none was opened.
class TenantHold final {
 public:
  TenantHold() = default;  // holds nothing
  TenantHold(std::shared_ptr<TenantReturns> returns, uint64_t id)
      : returns_(std::move(returns)), id_(id) {}
  ~TenantHold();
  TenantHold(TenantHold&& other) noexcept = default;
  TenantHold& operator=(TenantHold&& other) noexcept;

  // An attempt was opened.
  void SetOpened() { served_.in_vain = false; }
  // How many tokens it has brought; empty: nobody knows.
  void SetOutput(std::optional<int64_t> tokens) { served_.output_tokens = tokens; }
  // It broke, and the request comes back.
  void SetInVain() { served_.in_vain = true; }

 private:
  std::shared_ptr<TenantReturns> returns_;
  uint64_t id_ = 0;
  TokensServed served_{.output_tokens = 0, .in_vain = true};
};

}  // namespace baton
