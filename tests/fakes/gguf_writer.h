#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

// Puts a GGUF file together, right or wrong. Numbers that a test may set are public.
class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;
  uint64_t more_tensors = 0;  // than there are, in the header's count
  uint64_t more_entries = 0;

  void Add(std::string_view key, uint32_t value) { Scalar(key, 4, value); }
  void Add(std::string_view key, float value) { Scalar(key, 6, value); }
  void Add(std::string_view key, bool value) { Scalar(key, 7, static_cast<uint8_t>(value)); }
  void Add(std::string_view key, std::string_view value) {
    Begin(key, 8);
    Text(value, &metadata_);
  }
  void Add(std::string_view key, const char* value) { Add(key, std::string_view(value)); }
  void Add(std::string_view key, const std::vector<std::string>& values) {
    BeginArray(key, 8, values.size());
    for (const std::string& value : values) Text(value, &metadata_);
  }
  void Add(std::string_view key, const std::vector<float>& values) {
    BeginArray(key, 6, values.size());
    for (const float value : values) Number(value, &metadata_);
  }
  void Add(std::string_view key, const std::vector<int32_t>& values) {
    BeginArray(key, 5, values.size());
    for (const int32_t value : values) Number(value, &metadata_);
  }
  // An entry whose bytes behind the key are `bytes`.
  void AddRaw(std::string_view key, std::string_view bytes) {
    Text(key, &metadata_);
    metadata_ += bytes;
    ++entries_;
  }

  // `shape` has its outermost size first.
  void AddTensor(std::string name, uint32_t type, std::vector<uint64_t> shape, std::string data) {
    while (data_.size() % alignment != 0) data_ += '\0';
    tensors_.push_back({std::move(name), type, std::move(shape), data_.size()});
    data_ += data;
  }
  // Where the tensor that was added last is said to begin.
  void MoveLast(uint64_t offset) { tensors_.back().offset = offset; }

  std::string Bytes() const {
    std::string file = "GGUF";
    Number(version, &file);
    Number(static_cast<uint64_t>(tensors_.size()) + more_tensors, &file);
    Number(entries_ + more_entries, &file);
    file += metadata_;
    for (const Tensor& tensor : tensors_) {
      Text(tensor.name, &file);
      Number(static_cast<uint32_t>(tensor.shape.size()), &file);
      for (size_t i = tensor.shape.size(); i-- > 0;) Number(tensor.shape[i], &file);
      Number(tensor.type, &file);
      Number(tensor.offset, &file);
    }
    while (file.size() % alignment != 0) file += '\0';
    return file + data_;
  }

 private:
  struct Tensor {
    std::string name;
    uint32_t type = 0;
    std::vector<uint64_t> shape;
    uint64_t offset = 0;
  };

  template <typename T>
  static void Number(T value, std::string* out) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out->append(bytes, sizeof(T));
  }
  static void Text(std::string_view text, std::string* out) {
    Number(static_cast<uint64_t>(text.size()), out);
    *out += text;
  }
  void Begin(std::string_view key, uint32_t type) {
    Text(key, &metadata_);
    Number(type, &metadata_);
    ++entries_;
  }
  void BeginArray(std::string_view key, uint32_t type, uint64_t count) {
    Begin(key, 9);
    Number(type, &metadata_);
    Number(count, &metadata_);
  }
  template <typename T>
  void Scalar(std::string_view key, uint32_t type, T value) {
    Begin(key, type);
    Number(value, &metadata_);
  }

  std::string metadata_;
  uint64_t entries_ = 0;
  std::vector<Tensor> tensors_;
  std::string data_;
};

}  // namespace baton
