#include "common/http/http_exchange.h"

#include <utility>

#include "common/http/exchange_state.h"

namespace baton {

HttpExchange::HttpExchange(HttpRequest request, std::shared_ptr<ExchangeState> state)
    : request_(std::move(request)), state_(std::move(state)) {}

HttpExchange::~HttpExchange() { state_->Abandon(); }

void HttpExchange::Reply(HttpReply reply) { state_->Reply(std::move(reply)); }

void HttpExchange::Begin(int status, HttpHeaders headers) {
  state_->Begin(status, std::move(headers));
}

bool HttpExchange::Write(std::string chunk) { return state_->Write(std::move(chunk)); }

void HttpExchange::WriteLast(std::string chunk, std::shared_ptr<void> held) {
  state_->WriteLast(std::move(chunk), std::move(held));
}

void HttpExchange::End() { state_->End(); }

void HttpExchange::Abort() { state_->Abort(); }

void HttpExchange::OnGone(std::function<void()> gone) { state_->OnGone(std::move(gone)); }

std::optional<base::Instant> HttpExchange::StalledSince() const { return state_->StalledSince(); }

}  // namespace baton
