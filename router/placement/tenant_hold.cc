#include "router/placement/tenant_hold.h"

namespace baton {

void TenantReturns::Return(uint64_t id, const TokensServed& served) {
  base::MutexLock lock(&mutex_);
  if (take_) take_(id, served);
}

void TenantReturns::Close() {
  base::MutexLock lock(&mutex_);
  take_ = nullptr;
}

TenantHold::~TenantHold() {
  if (returns_ != nullptr) returns_->Return(id_, served_);
}

TenantHold& TenantHold::operator=(TenantHold&& other) noexcept {
  std::swap(returns_, other.returns_);
  std::swap(id_, other.id_);
  std::swap(served_, other.served_);
  return *this;
}

}  // namespace baton
