#include <algorithm>

#include "router/request/flow_context.h"
#include "router/request/request_flow.h"

namespace baton {

LengthLimits FlowContext::Limits() const {
  const int32_t healthy = directory->HealthyContext();
  const int32_t known = std::max(healthy, directory->KnownContext());
  return {.context = known > 0 ? known : model.config.max_positions,
          .context_now = healthy > 0 ? healthy : known,
          .input = options.max_input_length,
          .output = options.max_output_length};
}

bool FlowRegistry::Add(const std::string& id, std::shared_ptr<RequestFlow> flow) {
  base::MutexLock lock(&mutex_);
  return flows_.emplace(id, std::move(flow)).second;
}

void FlowRegistry::Remove(const std::string& id) {
  std::shared_ptr<RequestFlow> removed;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto it = flows_.find(id);
  if (it == flows_.end()) return;
  removed = std::move(it->second);
  flows_.erase(it);
  removed_.NotifyAll();
}

std::vector<std::shared_ptr<RequestFlow>> FlowRegistry::All() const {
  base::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<RequestFlow>> flows;
  flows.reserve(flows_.size());
  for (const auto& [id, flow] : flows_) flows.push_back(flow);
  return flows;
}

std::vector<RequestReport> FlowRegistry::Reports() const {
  std::vector<RequestReport> reports;
  for (const auto& flow : All()) reports.push_back(flow->Report());
  return reports;
}

size_t FlowRegistry::size() const {
  base::MutexLock lock(&mutex_);
  return flows_.size();
}

bool FlowRegistry::WaitEmpty(base::Instant deadline) {
  base::MutexLock lock(&mutex_);
  while (!flows_.empty()) {
    if (!removed_.WaitUntil(&mutex_, deadline)) return flows_.empty();
  }
  return true;
}

}  // namespace baton
