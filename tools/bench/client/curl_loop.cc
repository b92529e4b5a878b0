#include "tools/bench/client/curl_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace baton::bench {
namespace {

// How many idle connections are kept for the next requests.
constexpr long kMaxIdleConnections = 65536;
constexpr size_t kEventsPerPoll = 256;

bool InitialiseCurl() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

absl::Status SystemError(const char* call) {
  return absl::ResourceExhaustedError(absl::StrCat(call, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CurlLoop>> CurlLoop::Create() {
  if (!InitialiseCurl()) return absl::InternalError("curl_global_init failed");
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return SystemError("epoll_create1");
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    const absl::Status status = SystemError("eventfd");
    close(epoll_fd);
    return status;
  }
  CURLM* const multi = curl_multi_init();
  BATON_CHECK(multi != nullptr);
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_fd}};
  BATON_CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) == 0);
  return std::unique_ptr<CurlLoop>(new CurlLoop(multi, epoll_fd, wake_fd));
}

CurlLoop::CurlLoop(CURLM* multi, int epoll_fd, int wake_fd)
    : multi_(multi), epoll_fd_(epoll_fd), wake_fd_(wake_fd) {
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &CurlLoop::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &CurlLoop::OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kMaxIdleConnections);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  thread_ = std::thread([this] { Run(); });
}

CurlLoop::~CurlLoop() {
  {
    base::MutexLock lock(&mutex_);
    orders_.stop = true;
  }
  AbortAll();
  thread_.join();
  curl_multi_cleanup(multi_);
  close(wake_fd_);
  close(epoll_fd_);
}

void CurlLoop::Add(Transfer* transfer) {
  bool first = false;
  {
    base::MutexLock lock(&mutex_);
    first = orders_.add.empty();
    orders_.add.push_back(transfer);
  }
  if (first) Wake();
}

void CurlLoop::AbortAll() {
  {
    base::MutexLock lock(&mutex_);
    orders_.abort = orders_.add.size();
    orders_.abort_active = true;
  }
  Wake();
}

void CurlLoop::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

int CurlLoop::OnSocket(CURL*, curl_socket_t socket, int what, void* self, void* known) {
  auto* const loop = static_cast<CurlLoop*>(self);
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(loop->epoll_fd_, EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  epoll_event event{};
  event.data.fd = socket;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) event.events |= EPOLLIN;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) event.events |= EPOLLOUT;
  const int operation = known == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(loop->epoll_fd_, operation, socket, &event) != 0) return -1;
  if (known == nullptr) curl_multi_assign(loop->multi_, socket, loop);
  return 0;
}

int CurlLoop::OnTimer(CURLM*, long timeout_ms, void* self) {
  static_cast<CurlLoop*>(self)->timer_ =
      timeout_ms < 0 ? base::kNever
                     : std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  return 0;
}

void CurlLoop::Run() {
  while (Obey()) {
    Reap();  // what ended while others were begun; nothing else would wake the poll for it
    Poll();
    Reap();
  }
}

void CurlLoop::Poll() {
  int timeout_ms = -1;
  if (timer_ != base::kNever) {
    const double left_ms = base::Milliseconds(timer_ - std::chrono::steady_clock::now());
    timeout_ms = left_ms <= 0 ? 0 : static_cast<int>(std::min(left_ms + 1, 3.6e6));
  }
  std::array<epoll_event, kEventsPerPoll> events;
  const int count =
      epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), timeout_ms);
  int running = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.fd == wake_fd_) {
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t got = read(wake_fd_, &ignored, sizeof(ignored));
      continue;
    }
    int what = 0;
    if ((event.events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
    if ((event.events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
    curl_multi_socket_action(multi_, event.data.fd, what, &running);
  }
  RunTimer();
}

bool CurlLoop::Obey() {
  Orders orders;
  {
    base::MutexLock lock(&mutex_);
    orders.add.swap(orders_.add);
    orders.abort = std::exchange(orders_.abort, 0);
    orders.abort_active = std::exchange(orders_.abort_active, false);
    orders.stop = orders_.stop;
  }
  if (orders.abort_active) {
    while (!active_.empty()) End(active_.back(), CURLE_ABORTED_BY_CALLBACK);
  }
  for (size_t i = 0; i < orders.add.size(); ++i) {
    if (i < orders.abort || orders.stop) {
      orders.add[i]->OnDone(std::chrono::steady_clock::now(), CURLE_ABORTED_BY_CALLBACK);
    } else {
      Begin(orders.add[i]);
    }
  }
  return !orders.stop;
}

void CurlLoop::Begin(Transfer* transfer) {
  transfer->place_ = active_.size();
  active_.push_back(transfer);
  curl_easy_setopt(transfer->handle(), CURLOPT_PRIVATE, transfer);
  transfer->OnAdded(std::chrono::steady_clock::now());
  if (curl_multi_add_handle(multi_, transfer->handle()) != CURLM_OK) {
    End(transfer, CURLE_FAILED_INIT);
    return;
  }
  // Sends it now, not after everything else that waits.
  RunTimer();
}

void CurlLoop::RunTimer() {
  if (timer_ == base::kNever || std::chrono::steady_clock::now() < timer_) return;
  timer_ = base::kNever;  // curl sets the next one
  int running = 0;
  curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

void CurlLoop::Reap() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    End(reinterpret_cast<Transfer*>(transfer), message->data.result);
  }
}

void CurlLoop::End(Transfer* transfer, CURLcode code) {
  curl_multi_remove_handle(multi_, transfer->handle());
  active_.back()->place_ = transfer->place_;
  active_[transfer->place_] = active_.back();
  active_.pop_back();
  transfer->OnDone(std::chrono::steady_clock::now(), code);
}

}  // namespace baton::bench
