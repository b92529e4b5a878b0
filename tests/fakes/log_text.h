#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace baton {

// What is logged during its life. Threads that may log begin after it and end before it.
class LogText final {
 public:
  explicit LogText(spdlog::level::level_enum level = spdlog::level::info)
      : sink_(std::make_shared<Sink>()), before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", sink_);
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogText() { spdlog::set_default_logger(before_); }
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;

  // The lines so far, without their times and levels. Thread-safe.
  std::string str() const { return sink_->Text(); }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string Text() {
      const std::lock_guard lock(mutex_);
      return text_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      text_.append(message.payload.data(), message.payload.size());
      text_ += '\n';
    }
    void flush_() override {}

    std::string text_;
  };

  const std::shared_ptr<Sink> sink_;
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace baton
