// How far models with small weights, or with a small KV cache, are from the one that they were made
// from: perplexity of a text, how often the likeliest next token is the same, and how far the
// distributions are apart.
//
//   bench_quantized TEXT ORIGINAL [MODEL[,KV_DTYPE[,ISA]]...]
//
// TEXT holds documents, one to a line as a JSON array [prompt, answer]; tokens of answers count.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/model/load_model.h"
#include "common/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr int32_t kMostTokens = 1024;  // of a document; what follows is left out

struct Document {
  std::vector<TokenId> ids;
  size_t prompt = 0;  // tokens that do not count
};

std::vector<Document> ReadDocuments(const std::string& path, const Tokenizer& tokenizer) {
  std::ifstream file(path);
  std::vector<Document> documents;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json parts = nlohmann::json::parse(line);
    Document document;
    document.ids = tokenizer.Encode(parts[0].get<std::string>(), false).value();
    document.prompt = document.ids.size();
    const auto answer = tokenizer.Encode(parts[1].get<std::string>(), false).value();
    document.ids.insert(document.ids.end(), answer.begin(), answer.end());
    if (document.ids.size() > kMostTokens) document.ids.resize(kMostTokens);
    if (document.prompt < document.ids.size()) documents.push_back(std::move(document));
  }
  return documents;
}

// The log-probabilities of every token of the vocabulary at one place, and the token that follows.
struct Place {
  std::vector<float> logprobs;
  TokenId next = TokenId(0);
};

std::vector<Place> PlacesOf(LoadedModel& model, const Document& document) {
  const auto length = static_cast<int32_t>(document.ids.size());
  std::vector<int32_t> positions(document.ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int32_t> blocks(document.ids.size() / model.kv().layout.block_size + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  const kernels::StepLayout::Sequence sequence = {
      .num_tokens = length, .context = length, .blocks = blocks};
  std::vector<int32_t> rows(document.ids.size() - document.prompt);
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(document.prompt) - 1);
  const auto logits = model.transformer->Forward({.tokens = document.ids,
                                                  .positions = positions,
                                                  .sequences = {&sequence, 1},
                                                  .sample_rows = rows},
                                                 model.kv());
  BATON_CHECK(logits.ok()) << logits.status().ToString();
  std::vector<Place> places;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* row = static_cast<const float*>(logits->row(static_cast<int64_t>(i)));
    Place place = {.logprobs = {row, row + logits->cols},
                   .next = document.ids[document.prompt + i]};
    const float most = *std::max_element(place.logprobs.begin(), place.logprobs.end());
    double sum = 0;
    for (const float logit : place.logprobs) sum += std::exp(double{logit} - most);
    const auto norm = static_cast<float>(most + std::log(sum));
    for (float& logit : place.logprobs) logit -= norm;
    places.push_back(std::move(place));
  }
  BATON_CHECK(model.transformer->backend().EndStep().ok());
  return places;
}

size_t Likeliest(const std::vector<float>& logprobs) {
  return static_cast<size_t>(std::max_element(logprobs.begin(), logprobs.end()) - logprobs.begin());
}

// `name` is a directory and perhaps, after commas, the type of the KV cache and the instruction
// set.
std::unique_ptr<LoadedModel> LoadForText(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, ',');
  BATON_CHECK(parts.size() <= 3) << name << " has more than a directory, a type and a set";
  ModelOptions options;
  if (parts.size() > 1) {
    options.kv_dtype = kernels::ParseKvDType(parts[1]);
    BATON_CHECK(options.kv_dtype.has_value()) << parts[1] << " names no type of a KV cache";
  }
  if (parts.size() > 2) options.isa = parts[2];
  options.kv.tokens = 2 * kMostTokens;
  options.limits = {.max_tokens = kMostTokens, .max_samples = kMostTokens};
  auto model = LoadModel(parts[0], options, nullptr);
  BATON_CHECK(model.ok()) << model.status().ToString();
  return *std::move(model);
}

void Compare(const std::string& name, LoadedModel& original,
             const std::vector<Document>& documents) {
  auto model = LoadForText(name);
  int64_t places = 0;
  int64_t same = 0;
  double surprise = 0;
  double divergence = 0;  // of the original from this model, Kullback and Leibler's
  for (const Document& document : documents) {
    const std::vector<Place> expected = PlacesOf(original, document);
    const std::vector<Place> actual = PlacesOf(*model, document);
    for (size_t i = 0; i < actual.size(); ++i) {
      const std::vector<float>& p = expected[i].logprobs;
      const std::vector<float>& q = actual[i].logprobs;
      surprise -= q[static_cast<size_t>(actual[i].next)];
      same += Likeliest(p) == Likeliest(q) ? 1 : 0;
      for (size_t id = 0; id < p.size(); ++id) divergence += std::exp(p[id]) * (p[id] - q[id]);
    }
    places += static_cast<int64_t>(actual.size());
  }
  const auto count = static_cast<double>(places);
  std::printf(
      "%-40s %8.2f MB  %zu B of KV a token  perplexity %.4f  same likeliest %.2f %%  divergence "
      "%.7f\n",
      name.c_str(), static_cast<double>(model->weight_bytes) / 1e6,
      model->kv().layout.bytes_per_token(), std::exp(surprise / count),
      100 * static_cast<double>(same) / count, divergence / count);
  std::fflush(stdout);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_quantized TEXT ORIGINAL [MODEL[,KV_DTYPE[,ISA]]...]\n");
    return 2;
  }
  const auto tokenizer = baton::LoadTokenizer(argv[2]);
  BATON_CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  const auto documents = baton::ReadDocuments(argv[1], **tokenizer);
  const auto original = baton::LoadForText(argv[2]);
  int64_t counted = 0;
  for (const auto& document : documents) {
    counted += static_cast<int64_t>(document.ids.size() - document.prompt);
  }
  std::printf("%zu documents, %lld tokens that count\n", documents.size(),
              static_cast<long long>(counted));
  for (int i = 2; i < argc; ++i) baton::Compare(argv[i], *original, documents);
  return 0;
}
