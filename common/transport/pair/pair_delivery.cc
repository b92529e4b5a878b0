#include "common/transport/pair/pair_delivery.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/transport/pair/pair_parcel.h"

namespace baton {
namespace {

absl::Status WrongSum(const ParcelPart& part, uint64_t found, uint64_t expected) {
  return absl::DataLossError("the checksum of block " + std::to_string(part.ordinal) + " is " +
                             std::to_string(found) + ", the sender computed " +
                             std::to_string(expected));
}

// The places of the parts, begun in `inbox`.
class Places final {
 public:
  explicit Places(KvInbox* inbox) : inbox_(inbox) {}

  absl::Status Begin(const std::vector<ParcelPart>& parts) {
    const std::vector<int64_t> offsets = PartOffsets(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      BATON_ASSIGN_OR_RETURN(ByteParts to,
                             inbox_->BeginWrite(parts[i].ordinal, parts[i].offset, parts[i].size));
      targets_.push_back({offsets[i], std::move(to)});
      begun_.push_back(parts[i]);
    }
    return absl::OkStatus();
  }
  void End(const absl::Status& written) {
    for (const ParcelPart& part : begun_) inbox_->EndWrite(part.ordinal, part.size, written);
  }
  const std::vector<ScatterPart>& targets() const { return targets_; }

 private:
  KvInbox* const inbox_;
  std::vector<ScatterPart> targets_;
  std::vector<ParcelPart> begun_;
};

absl::Status ScatterAndCompare(const DeliverParcel& command, const ParcelHeader& header,
                               const Places& places, PairMemory* memory, bool checksum) {
  if (checksum && !header.has_sums) return absl::DataLossError("the parcel has no checksums");
  BATON_ASSIGN_OR_RETURN(const std::vector<uint64_t> found,
                         memory->Scatter(command.buffer, places.targets(), checksum));
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != header.sums[i]) {
      return WrongSum(header.plan.parts[i], found[i], header.sums[i]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ParcelHeader> CheckedHeader(const DeliverParcel& command, PairMemory* memory) {
  BATON_ASSIGN_OR_RETURN(const std::string bytes, memory->ReadHeader(command.buffer));
  BATON_ASSIGN_OR_RETURN(ParcelHeader header, DecodeParcelHeader(std::as_bytes(std::span(bytes))));
  BATON_RETURN_IF_ERROR(CheckParcelHeader(header, command.key.epoch, command.plan));
  return header;
}

}  // namespace

ParcelDelivered Deliver(const DeliverParcel& command, PairMemory* memory, bool checksum,
                        const std::function<std::shared_ptr<KvInbox>(const Ticket&)>& find_inbox) {
  const auto answer = [&](ParcelOutcome outcome, const absl::Status& why) {
    return ParcelDelivered{command.key, outcome, std::string(why.message())};
  };
  const absl::StatusOr<ParcelHeader> header = CheckedHeader(command, memory);
  if (!header.ok()) return answer(ParcelOutcome::kBroken, header.status());
  if (header->is_void) return answer(ParcelOutcome::kVoid, absl::OkStatus());
  if (command.plan.parts.empty()) return answer(ParcelOutcome::kWritten, absl::OkStatus());
  const std::shared_ptr<KvInbox> inbox = find_inbox(command.plan.ticket);
  if (inbox == nullptr) {
    return answer(ParcelOutcome::kDiscarded, absl::NotFoundError("no open push has its ticket"));
  }
  Places places(inbox.get());
  absl::Status status = places.Begin(command.plan.parts);
  if (!status.ok()) {
    places.End(status);
    return answer(ParcelOutcome::kDiscarded, status);
  }
  status = ScatterAndCompare(command, *header, places, memory, checksum);
  places.End(status);
  return answer(status.ok() ? ParcelOutcome::kWritten : ParcelOutcome::kBroken, status);
}

}  // namespace baton
