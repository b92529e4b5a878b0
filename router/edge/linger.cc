#include "router/edge/linger.h"

namespace baton {

Linger::Linger(grpc::CallbackServerContext* context, const LingerOptions& options)
    : options_(options), call_(std::make_shared<Call>()) {
  base::MutexLock lock(&call_->mutex);
  call_->context = context;
}

void Linger::Begin() {
  Took();
  LookAt(options_.clock->Now() + options_.time, options_, call_);
}

void Linger::Took() {
  base::MutexLock lock(&call_->mutex);
  call_->progress = options_.clock->Now();
}

void Linger::LookAt(base::Instant when, const LingerOptions& options,
                    const std::weak_ptr<Call>& weak) {
  options.timers->At(when, [options, weak] {
    const auto call = weak.lock();
    if (call == nullptr) return;
    base::Instant next;
    {
      base::MutexLock lock(&call->mutex);
      if (call->context == nullptr) return;
      next = call->progress + options.time;
      if (next <= options.clock->Now()) {
        call->context->TryCancel();
        return;
      }
    }
    LookAt(next, options, weak);
  });
}

void Linger::End() {
  base::MutexLock lock(&call_->mutex);
  call_->context = nullptr;
}

}  // namespace baton
