#include "common/formats/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr size_t kLeastGgufBytes = 24;   // magic, version and two counts
constexpr uint64_t kMaxMetadata = 4096;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 255;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxElements = uint64_t{1} << 48;  // of a tensor
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxScalarArray = 4096;
constexpr size_t kMaxShown = 80;

// The bytes of a value of fixed size; 0 for strings, arrays and types that are not known.
uint64_t SizeOfValue(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

// Takes values off the front of the header. What is asked for beyond the end is refused once, and
// is zeros or empty from then on.
class HeaderCursor final {
 public:
  explicit HeaderCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value = {};
    const std::span<const std::byte> from = Bytes(sizeof(T));
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> Bytes(uint64_t count) {
    if (count > left()) {
      good_ = false;
      at_ = bytes_.size();
      return {};
    }
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }
  std::string_view Text() {
    const auto bytes = Bytes(Take<uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool good() const { return good_; }
  size_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  std::span<const std::byte> From(size_t begin) const { return bytes_.subspan(begin, at_ - begin); }

 private:
  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool good_ = true;
};

constexpr char kTruncated[] = "it ends inside its header and is truncated; download it again";

// Reads one entry of the metadata; the answer is what is wrong with it.
std::string TakeEntry(HeaderCursor& cursor, GgufValue& value) {
  value.key = cursor.Text();
  if (value.key.empty() || value.key.size() > kMaxKeyBytes) {
    return cursor.good() ? "a key of the metadata is empty or too long; download it again"
                         : kTruncated;
  }
  uint32_t type = cursor.Take<uint32_t>();
  value.array = type == static_cast<uint32_t>(GgufValueType::kArray);
  if (value.array) {
    type = cursor.Take<uint32_t>();
    value.count = cursor.Take<uint64_t>();
  }
  value.type = static_cast<GgufValueType>(type);
  const size_t begin = cursor.at();
  if (value.type == GgufValueType::kString) {
    for (uint64_t i = 0; i < value.count && cursor.good(); ++i) cursor.Text();
  } else if (const uint64_t size = SizeOfValue(value.type); size > 0) {
    cursor.Bytes(value.count > cursor.left() ? cursor.left() + 1 : value.count * size);
  } else if (cursor.good()) {
    return absl::StrCat("\"", ShownGgufName(value.key), "\" is of type ", type,
                        value.array ? " in an array" : "",
                        "; expected a number, a string, or an array of these");
  }
  value.data = cursor.From(begin);
  return cursor.good() ? "" : kTruncated;
}

// Reads what the header says of a tensor: its name, type and shape, and where its data begin.
std::string TakeTensor(HeaderCursor& cursor, GgufTensor& tensor, uint64_t& offset) {
  tensor.name = cursor.Text();
  if (!cursor.good()) return kTruncated;
  const std::string who = absl::StrCat("tensor ", ShownGgufName(tensor.name));
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
    return who + ": its name is empty or too long; download it again";
  }
  const uint32_t dimensions = cursor.Take<uint32_t>();
  if (cursor.good() && (dimensions == 0 || dimensions > kMaxDimensions)) {
    return absl::StrCat(who, " has ", dimensions, " dimensions; expected 1 to ", kMaxDimensions);
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const uint64_t size = cursor.Take<uint64_t>();
    if (!cursor.good()) return kTruncated;
    if (size == 0 || size > kMaxElements / elements) {
      return absl::StrCat(who, " has a dimension of ", size, " beside ", elements,
                          " elements; download it again");
    }
    elements *= size;
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  const uint32_t id = cursor.Take<uint32_t>();
  offset = cursor.Take<uint64_t>();
  if (!cursor.good()) return kTruncated;
  tensor.type = FindGgufType(id);
  if (tensor.type == nullptr || !tensor.type->readable()) {
    const std::string name =
        tensor.type == nullptr ? absl::StrCat("number ", id) : std::string(tensor.type->name);
    return absl::StrCat(who, " is of type ", name, ", expected one of ", ReadableGgufTypes(),
                        "; take the model in another quantization");
  }
  if (tensor.shape.back() % tensor.type->block != 0) {
    return absl::StrCat(who, " has rows of ", tensor.shape.back(), " elements; ",
                        std::string(tensor.type->name), " implies a multiple of ",
                        tensor.type->block);
  }
  return "";
}

uint64_t BytesOf(const GgufTensor& tensor) {
  uint64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= static_cast<uint64_t>(size);
  return elements / static_cast<uint64_t>(tensor.type->block) *
         static_cast<uint64_t>(tensor.type->bytes);
}

template <typename T>
nlohmann::json ReadAs(const std::byte* from) {
  T value = {};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// The number or truth that lies at `from`.
nlohmann::json ReadScalar(GgufValueType type, const std::byte* from) {
  switch (type) {
    case GgufValueType::kUint8:
      return ReadAs<uint8_t>(from);
    case GgufValueType::kInt8:
      return ReadAs<int8_t>(from);
    case GgufValueType::kUint16:
      return ReadAs<uint16_t>(from);
    case GgufValueType::kInt16:
      return ReadAs<int16_t>(from);
    case GgufValueType::kUint32:
      return ReadAs<uint32_t>(from);
    case GgufValueType::kInt32:
      return ReadAs<int32_t>(from);
    case GgufValueType::kFloat32:
      return ReadAs<float>(from);
    case GgufValueType::kBool:
      return std::to_integer<int>(*from) != 0;
    case GgufValueType::kUint64:
      return ReadAs<uint64_t>(from);
    case GgufValueType::kInt64:
      return ReadAs<int64_t>(from);
    case GgufValueType::kFloat64:
      return ReadAs<double>(from);
    default:
      return nullptr;
  }
}

}  // namespace

std::string ShownGgufName(std::string_view name) {
  const std::string escaped = absl::CHexEscape(absl::string_view(name.data(), name.size()));
  return escaped.size() <= kMaxShown ? escaped : escaped.substr(0, kMaxShown) + "…";
}

bool IsGgufPath(const std::string& model) {
  std::error_code error;
  if (std::filesystem::is_directory(model, error)) return false;
  return model.ends_with(".gguf") || std::filesystem::is_regular_file(model, error);
}

absl::Status GgufFile::Refuse(const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": ", what));
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path, "GGUF", kLeastGgufBytes));
  std::unique_ptr<GgufFile> file(new GgufFile(std::move(mapped)));
  BATON_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

absl::Status GgufFile::ReadHeader() {
  HeaderCursor cursor(file_->bytes());
  if (cursor.Take<uint32_t>() != kMagic) {
    return Refuse("it does not begin with \"GGUF\"; give a GGUF file, or a model directory");
  }
  const uint32_t version = cursor.Take<uint32_t>();
  if (version != 2 && version != 3) {
    const bool swapped = version != 0 && (version & 0xffff) == 0;
    return Refuse(
        absl::StrCat(swapped ? "it is big-endian" : absl::StrCat("it is of version ", version),
                     ", expected little-endian GGUF of version 2 or 3; convert the model again"));
  }
  const uint64_t tensors = cursor.Take<uint64_t>();
  const uint64_t entries = cursor.Take<uint64_t>();
  if (tensors > kMaxTensors || entries > kMaxMetadata) {
    return Refuse(absl::StrCat("it claims ", tensors, " tensors and ", entries,
                               " entries of metadata; expected at most ", kMaxTensors, " and ",
                               kMaxMetadata));
  }
  for (uint64_t i = 0; i < entries; ++i) {
    GgufValue value;
    if (const std::string wrong = TakeEntry(cursor, value); !wrong.empty()) return Refuse(wrong);
    if (!keys_.emplace(value.key, metadata_.size()).second) {
      return Refuse(
          absl::StrCat("\"", ShownGgufName(value.key), "\" occurs twice in the metadata"));
    }
    metadata_.push_back(value);
  }
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < tensors; ++i) {
    GgufTensor tensor;
    uint64_t offset = 0;
    const std::string wrong = TakeTensor(cursor, tensor, offset);
    if (!wrong.empty()) return Refuse(wrong);
    if (!names_.emplace(tensor.name, tensors_.size()).second) {
      return Refuse(absl::StrCat("tensor ", ShownGgufName(tensor.name), " occurs twice"));
    }
    tensors_.push_back(std::move(tensor));
    offsets.push_back(offset);
  }
  header_ = {reinterpret_cast<const char*>(file_->bytes().data()), cursor.at()};
  return PlaceTensors(offsets);
}

absl::Status GgufFile::PlaceTensors(std::span<const uint64_t> offsets) {
  const nlohmann::json scalars = Scalars();
  const auto number = [&](const char* key, uint64_t fallback) {
    const auto found = scalars.find(key);
    return found != scalars.end() && found->is_number_integer() ? found->get<uint64_t>() : fallback;
  };
  if (const uint64_t parts = number("split.count", 1); parts > 1) {
    return Refuse(absl::StrCat("it is one of ", parts,
                               " parts of a model, expected a single file; join them with "
                               "llama-gguf-split --merge"));
  }
  const uint64_t alignment = number("general.alignment", 32);
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    return Refuse(absl::StrCat("\"general.alignment\" is ", alignment,
                               "; expected a power of two up to ", kMaxAlignment));
  }
  const uint64_t begin = (header_.size() + alignment - 1) / alignment * alignment;
  const uint64_t size = file_->bytes().size();
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return offsets[i]; });
  uint64_t end = 0;  // of the tensor before
  for (const size_t i : order) {
    GgufTensor& tensor = tensors_[i];
    const std::string who = absl::StrCat("tensor ", ShownGgufName(tensor.name));
    if (offsets[i] % alignment != 0 || offsets[i] < end) {
      return Refuse(absl::StrCat(who, " begins at byte ", offsets[i], " of the data; expected a ",
                                 "multiple of ", alignment, " from ", end, " on"));
    }
    const uint64_t bytes = BytesOf(tensor);
    if (begin > size || offsets[i] > size - begin || bytes > size - begin - offsets[i]) {
      return Refuse(absl::StrCat(who, " has ", bytes, " bytes from byte ", offsets[i],
                                 " of the data on, which begin at ", begin, ", in a file of ", size,
                                 ", which is truncated; download it again"));
    }
    tensor.data = file_->bytes().subspan(begin + offsets[i], bytes);
    end = offsets[i] + bytes;
  }
  return absl::OkStatus();
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second];
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

absl::Status GgufFile::CheckScalars(std::span<const std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const GgufValue* const value = Find(key);
    const bool words = value != nullptr && value->type == GgufValueType::kString;
    if (value == nullptr || !value->array || (!words && value->count <= kMaxScalarArray)) continue;
    return Refuse(absl::StrCat("\"", ShownGgufName(key), "\" is an array of ", value->count,
                               words ? " strings" : " numbers",
                               ", expected one value; convert the ", "model again"));
  }
  return absl::OkStatus();
}

nlohmann::json GgufFile::Scalars() const {
  nlohmann::json all = nlohmann::json::object();
  for (const GgufValue& value : metadata_) {
    const std::string key(value.key);
    if (value.type == GgufValueType::kString) {
      if (value.array) continue;
      HeaderCursor cursor(value.data);
      all[key] = std::string(cursor.Text());
      continue;
    }
    if (!value.array) {
      all[key] = ReadScalar(value.type, value.data.data());
      continue;
    }
    if (value.count > kMaxScalarArray) continue;
    nlohmann::json& array = all[key] = nlohmann::json::array();
    for (uint64_t i = 0; i < value.count; ++i) {
      array.push_back(ReadScalar(value.type, value.data.data() + i * SizeOfValue(value.type)));
    }
  }
  return all;
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  std::vector<std::string_view> strings;
  const GgufValue* value = Find(key);
  if (value == nullptr) return strings;
  if (!value->array || value->type != GgufValueType::kString) {
    return Refuse(absl::StrCat("\"", std::string(key), "\" is no array of strings"));
  }
  HeaderCursor cursor(value->data);
  for (uint64_t i = 0; i < value->count; ++i) strings.push_back(cursor.Text());
  return strings;
}

absl::StatusOr<std::vector<double>> GgufFile::Numbers(std::string_view key) const {
  std::vector<double> numbers;
  const GgufValue* value = Find(key);
  if (value == nullptr) return numbers;
  const bool good =
      value->array && value->type != GgufValueType::kString && value->type != GgufValueType::kBool;
  if (!good) return Refuse(absl::StrCat("\"", std::string(key), "\" is no array of numbers"));
  const uint64_t size = SizeOfValue(value->type);
  for (uint64_t i = 0; i < value->count; ++i) {
    numbers.push_back(ReadScalar(value->type, value->data.data() + i * size).get<double>());
  }
  return numbers;
}

}  // namespace baton
