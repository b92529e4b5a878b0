#include "router/edge/linger.h"

namespace baton {

Linger::Linger(grpc::CallbackServerContext* context, const LingerOptions& options)
    : options_(options), call_(std::make_shared<Call>()) {
  base::MutexLock lock(&call_->mutex);
  call_->context = context;
}

void Linger::Begin() {
  options_.timers->At(options_.clock->Now() + options_.time, [weak = std::weak_ptr<Call>(call_)] {
    const auto call = weak.lock();
    if (call == nullptr) return;
    base::MutexLock lock(&call->mutex);
    if (call->context != nullptr) call->context->TryCancel();
  });
}

void Linger::End() {
  base::MutexLock lock(&call_->mutex);
  call_->context = nullptr;
}

}  // namespace baton
