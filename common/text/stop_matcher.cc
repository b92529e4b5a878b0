#include "common/text/stop_matcher.h"

#include <algorithm>
#include <deque>

#include "common/base/check.h"

namespace baton {

StopMatcher::StopMatcher(std::span<const std::string> stop_strings, bool include_stop)
    : include_stop_(include_stop), nodes_(1) {
  for (size_t i = 0; i < stop_strings.size(); ++i) {
    if (!stop_strings[i].empty()) Insert(stop_strings[i], static_cast<int32_t>(i));
  }
  LinkFailures();
}

void StopMatcher::Insert(std::string_view stop, int32_t index) {
  int32_t node = 0;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = Child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      const int32_t depth = At(node).depth + 1;
      nodes_.push_back({.depth = depth});
      auto& children = At(node).children;
      children.insert(std::lower_bound(children.begin(), children.end(), std::pair(byte, next)),
                      {byte, next});
    }
    node = next;
  }
  if (At(node).output < 0) {
    At(node).output = index;
    At(node).output_bytes = At(node).depth;
  }
}

void StopMatcher::LinkFailures() {
  std::deque<int32_t> queue;
  for (const auto& [byte, child] : At(0).children) queue.push_back(child);
  while (!queue.empty()) {
    const int32_t node = queue.front();
    queue.pop_front();
    Node& current = At(node);
    const Node& failure = At(current.failure);
    if (current.output < 0) {
      current.output = failure.output;
      current.output_bytes = failure.output_bytes;
    }
    current.held_bytes = current.children.empty() ? failure.held_bytes : current.depth;
    for (const auto& [byte, child] : current.children) {
      At(child).failure = Step(current.failure, byte);
      queue.push_back(child);
    }
  }
}

int32_t StopMatcher::Child(int32_t node, uint8_t byte) const {
  const auto& children = At(node).children;
  const auto found = std::lower_bound(children.begin(), children.end(), std::pair(byte, 0));
  return found != children.end() && found->first == byte ? found->second : -1;
}

int32_t StopMatcher::Step(int32_t node, uint8_t byte) const {
  while (true) {
    const int32_t child = Child(node, byte);
    if (child >= 0) return child;
    if (node == 0) return 0;
    node = At(node).failure;
  }
}

StopMatchResult StopMatcher::Append(std::string_view text, bool active) {
  BATON_CHECK(!stopped_) << "the text has already ended";
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = Step(state_, static_cast<uint8_t>(text[i]));
    const Node& node = At(state_);
    if (!active || node.output < 0) continue;
    stopped_ = true;
    held_ += text.substr(0, i + 1);
    return {Release(include_stop_ ? 0 : static_cast<size_t>(node.output_bytes)),
            static_cast<size_t>(node.output)};
  }
  held_ += text;
  return {Release(static_cast<size_t>(At(state_).held_bytes)), std::nullopt};
}

std::string StopMatcher::Flush() { return stopped_ ? std::string() : Release(0); }

std::string StopMatcher::Release(size_t keep) {
  const size_t end = held_.size() - keep;
  std::string text = held_.substr(held_begin_, end - held_begin_);
  held_begin_ = end;
  if (held_begin_ > held_.size() / 2) {  // moves each byte at most once per byte released
    held_.erase(0, held_begin_);
    held_begin_ = 0;
  }
  return text;
}

}  // namespace baton
