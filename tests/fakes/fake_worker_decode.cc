#include "tests/fakes/fake_worker_decode.h"

#include <chrono>
#include <utility>

#include "common/base/ticket.h"
#include "common/rpc/status_map.h"

namespace baton::testing {
namespace {

const grpc::Status& Gone() {
  static const auto& status = *new grpc::Status(grpc::StatusCode::CANCELLED, "gone");
  return status;
}

}  // namespace

FakeDecodeStream::FakeDecodeStream(std::shared_ptr<FakeWorkerState> state)
    : state_(std::move(state)) {
  ++state_->open_streams;
  StartRead(&request_);
}

void FakeDecodeStream::OnReadDone(bool ok) {
  base::MutexLock lock(&mutex_);
  if (!ok) {
    // A client that closes its side has said all it wanted to say.
    if (!begun_) {
      begun_ = true;
      thread_ = std::thread([this] { Finish(Gone()); });
    }
    return;
  }
  if (!begun_) {
    begun_ = true;
    start_ = request_.start();
    thread_ = std::thread([this] { Run(); });
  } else if (request_.has_release()) {
    released_ = true;
    release_ = request_.release().cause();
    changed_.NotifyAll();
  }
  StartRead(&request_);
}

void FakeDecodeStream::OnWriteDone(bool ok) {
  base::MutexLock lock(&mutex_);
  writing_ = false;
  write_ok_ = ok;
  changed_.NotifyAll();
}

void FakeDecodeStream::OnCancel() {
  base::MutexLock lock(&mutex_);
  cancelled_ = true;
  changed_.NotifyAll();
}

void FakeDecodeStream::OnDone() {
  --state_->open_streams;
  // The script's thread ended with Finish; a thread cannot join itself, so another one does.
  std::thread([this] {
    thread_.join();
    delete this;
  }).detach();
}

void FakeDecodeStream::Run() {
  ++state_->decode_streams;
  state_->Saw(start_.generation());
  history_ = FakeHistory(start_.generation());
  const grpc::Status status = Play();
  if (!secret_.empty()) state_->cluster->Close(secret_);
  FakeEnding ending{.request_id = start_.generation().request_id(),
                    .attempt = start_.generation().attempt()};
  bool told = false;
  {
    base::MutexLock lock(&mutex_);
    ending.release = release_;
    told = cancelled_ || released_;
  }
  if (told) state_->cluster->Ended(ending);
  Finish(status);
}

grpc::Status FakeDecodeStream::Play() {
  grpc::Status status;
  bool skip = false;
  const int32_t first = start_.generation().generated_ids_size();
  if (!Pass(FakePoint::kDecodeOpen, first, &skip, &status)) return status;
  if (start_.local_prefill()) {
    return Generate(FakeToken(*state_, start_.generation(), history_));
  }
  if (!Reserve(&status)) return status;
  worker::v1::Token committed;
  {
    base::MutexLock lock(&mutex_);
    while (!committed_ && !Over()) changed_.Wait(&mutex_);
    if (!committed_) return cancelled_ ? Gone() : grpc::Status::OK;
    committed = *committed_;
  }
  FakeEstimate(*state_, start_.generation(), &committed);
  return Generate(std::move(committed));
}

bool FakeDecodeStream::Reserve(grpc::Status* status) {
  bool skip = false;
  const int32_t first = start_.generation().generated_ids_size();
  if (!Pass(FakePoint::kReserved, first, &skip, status)) return false;
  if (skip) return true;
  const Ticket ticket = Ticket::Draw(state_->incarnation);
  secret_ = ticket.SecretBytes();
  state_->cluster->Open(secret_, [this](const worker::v1::Token& token) {
    base::MutexLock lock(&mutex_);
    committed_ = token;
    changed_.NotifyAll();
  });
  worker::v1::DecodeResponse message;
  message.mutable_reserved()->mutable_ticket()->set_incarnation(ticket.incarnation);
  message.mutable_reserved()->mutable_ticket()->set_secret(secret_);
  message.mutable_reserved()->set_total_blocks(1);
  *status = Gone();
  return Write(message);
}

grpc::Status FakeDecodeStream::Generate(worker::v1::Token token) {
  const worker::v1::Generation& generation = start_.generation();
  bool started = false;
  for (const worker::v1::PromptScores& scores : FakeScores(generation)) {
    if (!start_.local_prefill()) break;
    grpc::Status status;
    bool skip = false;
    if (!Pass(FakePoint::kScores, scores.first_index(), &skip, &status)) return status;
    worker::v1::DecodeResponse message;
    *message.mutable_scores() = scores;
    if (!skip && !Write(message)) return Gone();
  }
  while (true) {
    grpc::Status status;
    bool skip = false;
    const FakePoint point = started ? FakePoint::kToken : FakePoint::kStarted;
    if (!Pass(point, token.index(), &skip, &status)) return status;
    worker::v1::DecodeResponse message;
    if (started) {
      *message.mutable_tokens()->add_tokens() = token;
    } else {
      *message.mutable_started()->mutable_token() = token;
      message.mutable_started()->set_cached_tokens(state_->options.cached_tokens);
    }
    if (!skip && !Write(message)) return Gone();
    started = true;
    if (generation.has_beams() && state_->options.knows_beams) return FindBeams();
    history_.push_back(token.id());
    if (const auto ending = FakeEndingOf(*state_, generation, token)) {
      if (!Pass(FakePoint::kFinal, token.index() + 1, &skip, &status)) return status;
      worker::v1::DecodeResponse last;
      *last.mutable_final()->mutable_ending() = *ending;
      last.mutable_final()->mutable_timings()->set_prefill_ms(1.5);
      if (!skip) Write(last);
      return grpc::Status::OK;
    }
    if (!Pause()) return grpc::Status::OK;
    token = FakeToken(*state_, generation, history_);
  }
}

grpc::Status FakeDecodeStream::FindBeams() {
  grpc::Status status;
  bool skip = false;
  if (!Pause() || !Pass(FakePoint::kFinal, 1, &skip, &status)) return status;
  worker::v1::DecodeResponse last;
  *last.mutable_final() = FakeBeams(*state_, start_.generation());
  if (!skip) Write(last);
  return grpc::Status::OK;
}

bool FakeDecodeStream::Pass(FakePoint point, int32_t index, bool* skip, grpc::Status* status) {
  const FakeAction action = state_->Ask(point, start_.generation(), index);
  *skip = action.kind == FakeAction::Kind::kSkip;
  switch (action.kind) {
    case FakeAction::Kind::kGo:
    case FakeAction::Kind::kSkip:
      return true;
    case FakeAction::Kind::kFail:
      *status = ToGrpcStatus(action.status);
      return false;
    case FakeAction::Kind::kDie:
      state_->die();
      break;
    case FakeAction::Kind::kHang:
      break;
  }
  WaitUntilOver();
  *status = Gone();
  return false;
}

void FakeDecodeStream::WaitUntilOver() {
  base::MutexLock lock(&mutex_);
  while (!Over()) changed_.Wait(&mutex_);
}

bool FakeDecodeStream::Pause() {
  const auto until = std::chrono::steady_clock::now() + state_->options.token_delay;
  base::MutexLock lock(&mutex_);
  while (!Over() && std::chrono::steady_clock::now() < until) changed_.WaitUntil(&mutex_, until);
  return !Over();
}

bool FakeDecodeStream::Write(const worker::v1::DecodeResponse& message) {
  base::MutexLock lock(&mutex_);
  if (Over()) return false;
  response_ = message;
  writing_ = true;
  StartWrite(&response_);
  while (writing_) changed_.Wait(&mutex_);
  return write_ok_;
}

}  // namespace baton::testing
