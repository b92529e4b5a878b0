#include "common/formats/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_ends.h"
#include "common/formats/gguf/gguf_merges.h"
#include "common/formats/gguf/gguf_pre_tokenizers.h"
#include "common/formats/json_reader.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kScoresKey[] = "tokenizer.ggml.scores";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";
constexpr char kPreKey[] = "tokenizer.ggml.pre";
// Those of one value.
constexpr std::string_view kScalarKeys[] = {kModelKey,
                                            kPreKey,
                                            "tokenizer.chat_template",
                                            "tokenizer.ggml.add_bos_token",
                                            "tokenizer.ggml.add_eos_token",
                                            "tokenizer.ggml.add_space_prefix",
                                            "tokenizer.ggml.bos_token_id",
                                            "tokenizer.ggml.eos_token_id",
                                            "tokenizer.ggml.eot_token_id",
                                            "tokenizer.ggml.eom_token_id",
                                            "tokenizer.ggml.unknown_token_id"};
constexpr uint64_t kMostTokens = 1 << 22;

// What the format says of a token.
constexpr int kNormal = 1;
constexpr int kUnknown = 2;
constexpr int kControl = 3;
constexpr int kUserDefined = 4;
constexpr int kUnused = 5;
constexpr int kByte = 6;

void AppendString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

std::string AsString(std::string_view text) {
  std::string out;
  AppendString(text, &out);
  return out;
}

// The lists of the vocabulary, which fit each other.
struct Vocabulary {
  std::vector<std::string_view> tokens;  // by id
  std::vector<int> types;                // by id
  absl::flat_hash_map<std::string_view, TokenId> ids;

  bool Has(TokenId id) const { return types[static_cast<size_t>(id)] != kUnused; }
};

// Refuses lists that are too long before they take memory.
absl::Status CheckCounts(const GgufFile& file) {
  for (const char* key : {kTokensKey, kTypesKey, kScoresKey}) {
    const GgufValue* list = file.Find(key);
    if (list == nullptr || list->count <= kMostTokens) continue;
    return file.Refuse(absl::StrCat("\"", key, "\" has ", list->count,
                                    " entries; expected at most ", kMostTokens));
  }
  return absl::OkStatus();
}

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  BATON_RETURN_IF_ERROR(CheckCounts(file));
  Vocabulary vocabulary;
  BATON_ASSIGN_OR_RETURN(vocabulary.tokens, file.Strings(kTokensKey));
  const size_t count = vocabulary.tokens.size();
  if (count == 0) {
    return file.Refuse(
        absl::StrCat("\"", kTokensKey, "\" is empty; expected 1 to ", kMostTokens, " tokens"));
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<double> types, file.Numbers(kTypesKey));
  if (types.size() != count) {
    return file.Refuse(absl::StrCat("\"", kTypesKey, "\" has ", types.size(),
                                    " entries; expected one for each of ", count, " tokens"));
  }
  for (size_t i = 0; i < count; ++i) {
    const double type = types[i];
    if (!(type >= kNormal && type <= kByte)) {
      return file.Refuse(absl::StrCat("token ", i, " is of type ", type, "; expected 1 to 6"));
    }
    vocabulary.types.push_back(static_cast<int>(type));
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary.Has(id)) continue;
    const auto [same, added] = vocabulary.ids.emplace(vocabulary.tokens[i], id);
    if (added) continue;
    return file.Refuse(absl::StrCat("tokens ", same->second, " and ", i,
                                    " have the same text; convert the model again"));
  }
  // Some converters give them other types, by which a prompt would hold their letters instead.
  for (const TokenId end : GgufEndsByText(vocabulary.ids)) {
    vocabulary.types[static_cast<size_t>(end)] = kControl;
  }
  return vocabulary;
}

// Reads the id under a key of the metadata, of which there must be a token.
std::optional<TokenId> ReadId(JsonReader& reader, const char* key, const Vocabulary& vocabulary) {
  if (!reader.Has(key)) return std::nullopt;
  const auto last = static_cast<int64_t>(vocabulary.tokens.size()) - 1;
  const auto id = static_cast<TokenId>(reader.Int(key, 0, last, {}));
  if (reader.status().ok() && !vocabulary.Has(id)) reader.Fail(key, "the id of a token in use");
  return id;
}

// What stands around every text.
struct Frame {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
};

// Writes what the frame adds; null where it adds nothing.
std::string PostProcessor(const Frame& frame, const Vocabulary& vocabulary) {
  if (!frame.bos && !frame.eos) return "null";
  const auto special = [&](const std::optional<TokenId>& id) {
    if (!id) return std::string();
    return absl::StrCat("{\"SpecialToken\":{\"id\":",
                        AsString(vocabulary.tokens[static_cast<size_t>(*id)]), ",\"type_id\":0}}");
  };
  const auto sequence = [&](const char* name) {
    std::string text = special(frame.bos);
    absl::StrAppend(&text, text.empty() ? "" : ",", "{\"Sequence\":{\"id\":\"", name,
                    "\",\"type_id\":0}}");
    if (frame.eos) absl::StrAppend(&text, ",", special(frame.eos));
    return text;
  };
  std::string specials;
  for (const auto& id : {frame.bos, frame.bos == frame.eos ? std::nullopt : frame.eos}) {
    if (!id) continue;
    const std::string token = AsString(vocabulary.tokens[static_cast<size_t>(*id)]);
    absl::StrAppend(&specials, specials.empty() ? "" : ",", token, ":{\"id\":", token, ",\"ids\":[",
                    *id, "],\"tokens\":[", token, "]}");
  }
  return absl::StrCat("{\"type\":\"TemplateProcessing\",\"single\":[", sequence("A"),
                      "],\"pair\":[", sequence("A"), ",", sequence("B"), "],\"special_tokens\":{",
                      specials, "}}");
}

// The tokens that are found in a text before all others.
std::string AddedTokens(const Vocabulary& vocabulary) {
  std::string list;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const int type = vocabulary.types[i];
    if (type != kUnknown && type != kControl && type != kUserDefined) continue;
    if (vocabulary.tokens[i].empty()) continue;
    absl::StrAppend(&list, list.empty() ? "" : ",", "{\"id\":", i, ",\"content\":");
    AppendString(vocabulary.tokens[i], &list);
    absl::StrAppend(&list,
                    ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                    "\"special\":",
                    type == kUserDefined ? "false}" : "true}");
  }
  return list;
}

std::string VocabularyJson(const Vocabulary& vocabulary) {
  std::string list;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!vocabulary.Has(static_cast<TokenId>(i))) continue;
    if (!list.empty()) list.push_back(',');
    AppendString(vocabulary.tokens[i], &list);
    absl::StrAppend(&list, ":", i);
  }
  return list;
}

// Writes the pairs of tokens that become one, the earliest first.
void AppendMerge(std::string_view left, std::string_view right, std::string* list) {
  list->append(list->empty() ? "[" : ",[");
  AppendString(left, list);
  list->push_back(',');
  AppendString(right, list);
  list->push_back(']');
}

// How a kind of tokenizer differs from the others.
struct Kind {
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string decoder;
  std::string unknown = "null";
  std::string merges;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool adds_bos = false;  // where the file does not say
};

absl::StatusOr<Kind> ReadBytePairs(const GgufFile& file, JsonReader& reader) {
  if (!reader.Has(kPreKey)) {
    return file.Refuse(
        absl::StrCat("\"", kPreKey,
                     "\" is missing, so it is unknown how texts are divided; convert the model "
                     "again with a converter that writes it"));
  }
  const std::string name = reader.String(kPreKey, "");
  BATON_RETURN_IF_ERROR(reader.status());
  const GgufPreTokenizer* pre = FindGgufPreTokenizer(name);
  if (pre == nullptr) {
    reader.Fail(kPreKey, absl::StrCat("one of ", KnownGgufPreTokenizers()));
    return reader.status();
  }
  Kind kind = {.normalizer = pre->nfc ? "{\"type\":\"NFC\"}" : "null",
               .pre_tokenizer = PreTokenizerJson(*pre),
               .decoder =
                   "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
                   "\"use_regex\":true}",
               .ignore_merges = pre->ignore_merges,
               .adds_bos = pre->adds_bos};
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.Strings(kMergesKey));
  for (const std::string_view merge : merges) {
    const size_t space = merge.find(' ', 1);
    if (space == merge.npos || space + 1 == merge.size()) {
      return file.Refuse(
          absl::StrCat("\"", kMergesKey, "\" has an entry that is no pair of tokens"));
    }
    AppendMerge(merge.substr(0, space), merge.substr(space + 1), &kind.merges);
  }
  return kind;
}

absl::StatusOr<Kind> ReadSentencePieces(const GgufFile& file, const Vocabulary& vocabulary,
                                        JsonReader& reader) {
  BATON_ASSIGN_OR_RETURN(const std::vector<double> scores, file.Numbers(kScoresKey));
  if (scores.size() != vocabulary.tokens.size()) {
    return file.Refuse(absl::StrCat("\"", kScoresKey, "\" has ", scores.size(),
                                    " entries; expected one for each of ", vocabulary.tokens.size(),
                                    " tokens"));
  }
  if (const GgufValue* list = file.Find(kScoresKey); list->type != GgufValueType::kFloat32) {
    return file.Refuse(absl::StrCat("\"", kScoresKey, "\" has entries of type ",
                                    static_cast<uint32_t>(list->type),
                                    "; expected floats of 32 bits"));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) continue;
    return file.Refuse(
        absl::StrCat("token ", i, " has the score ", scores[i], "; expected a finite number"));
  }
  const bool prefix = reader.Bool("tokenizer.ggml.add_space_prefix", true);
  const auto unknown = ReadId(reader, "tokenizer.ggml.unknown_token_id", vocabulary);
  BATON_RETURN_IF_ERROR(reader.status());
  Kind kind = {.byte_fallback = true, .adds_bos = true};
  if (unknown) kind.unknown = AsString(vocabulary.tokens[static_cast<size_t>(*unknown)]);
  const std::string replace =
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}";
  kind.normalizer = prefix ? absl::StrCat(
                                 "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                                 "\"Prepend\",\"prepend\":\"▁\"},",
                                 replace, "]}")
                           : replace;
  kind.decoder = absl::StrCat(
      "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},"
      "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}",
      prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "", "]}");
  std::vector<ScoredPiece> pieces;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.types[i] == kNormal) pieces.push_back({vocabulary.tokens[i], scores[i]});
  }
  const auto merges = MergesOfPieces(pieces);
  if (!merges.ok()) return file.Refuse(std::string(merges.status().message()));
  for (const auto& [left, right] : *merges) {
    AppendMerge(left, right, &kind.merges);
  }
  return kind;
}

std::string TokenOf(const Vocabulary& vocabulary, const std::optional<TokenId>& id) {
  return id ? std::string(vocabulary.tokens[static_cast<size_t>(*id)]) : std::string();
}

}  // namespace

absl::StatusOr<GgufText> ReadGgufText(const GgufFile& file) {
  GgufText text;
  BATON_RETURN_IF_ERROR(file.CheckScalars(kScalarKeys));
  const nlohmann::json metadata = file.Scalars();
  JsonReader reader(metadata, file.path());
  text.chat_template = reader.String("tokenizer.chat_template", "");
  BATON_RETURN_IF_ERROR(reader.status());
  if (file.Find(kTokensKey) == nullptr) return text;
  BATON_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(file));
  const auto token = [&](const char* key) {
    return TokenOf(vocabulary, ReadId(reader, key, vocabulary));
  };
  text.bos = token("tokenizer.ggml.bos_token_id");
  text.eos = token("tokenizer.ggml.eos_token_id");
  text.unknown = token("tokenizer.ggml.unknown_token_id");
  for (const char* name : {"eos", "eot", "eom"}) {
    const std::string key = absl::StrCat("tokenizer.ggml.", name, "_token_id");
    const auto id = ReadId(reader, key.c_str(), vocabulary);
    if (id) text.ends.emplace_back(*id, key);
  }
  BATON_RETURN_IF_ERROR(reader.status());
  for (const TokenId id : GgufEndsByText(vocabulary.ids)) text.ends.emplace_back(id, "its text");
  return text;
}

absl::StatusOr<std::string> GgufTokenizerJson(const GgufFile& file) {
  if (file.Find(kModelKey) == nullptr) {
    return absl::NotFoundError(absl::StrCat(file.path(), " has no tokenizer (", kModelKey, ")"));
  }
  BATON_RETURN_IF_ERROR(file.CheckScalars(kScalarKeys));
  const nlohmann::json metadata = file.Scalars();
  JsonReader reader(metadata, file.path());
  const std::string model = reader.String(kModelKey, "");
  BATON_RETURN_IF_ERROR(reader.status());
  const bool byte_pairs = model == "gpt2";
  if (!byte_pairs && model != "llama") {
    reader.Fail(kModelKey, "gpt2 (byte pairs) or llama (SentencePiece)");
    return reader.status();
  }
  BATON_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(file));
  BATON_ASSIGN_OR_RETURN(const Kind kind, byte_pairs
                                              ? ReadBytePairs(file, reader)
                                              : ReadSentencePieces(file, vocabulary, reader));
  Frame frame;
  if (reader.Bool("tokenizer.ggml.add_bos_token", kind.adds_bos)) {
    frame.bos = ReadId(reader, "tokenizer.ggml.bos_token_id", vocabulary);
    if (!frame.bos)
      reader.Fail("tokenizer.ggml.bos_token_id", "an id, which every text begins with");
  }
  if (reader.Bool("tokenizer.ggml.add_eos_token", false)) {
    frame.eos = ReadId(reader, "tokenizer.ggml.eos_token_id", vocabulary);
    if (!frame.eos) reader.Fail("tokenizer.ggml.eos_token_id", "an id, which every text ends with");
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return absl::StrCat(
      "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[",
      AddedTokens(vocabulary), "],\"normalizer\":", kind.normalizer,
      ",\"pre_tokenizer\":", kind.pre_tokenizer,
      ",\"post_processor\":", PostProcessor(frame, vocabulary), ",\"decoder\":", kind.decoder,
      ",\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":", kind.unknown,
      ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":",
      kind.byte_fallback ? "true" : "false",
      ",\"byte_fallback\":", kind.byte_fallback ? "true" : "false",
      ",\"ignore_merges\":", kind.ignore_merges ? "true" : "false", ",\"vocab\":{",
      VocabularyJson(vocabulary), "},\"merges\":[", kind.merges, "]}}");
}

std::vector<std::string_view> GgufTokenizerBytes(const GgufFile& file) {
  std::vector<std::string_view> bytes;
  for (const GgufValue& value : file.metadata()) {
    if (!value.key.starts_with("tokenizer.ggml.")) continue;
    // In the file, the key is followed by the type, and that by the data.
    const char* const end = reinterpret_cast<const char*>(value.data.data() + value.data.size());
    bytes.emplace_back(value.key.data(), static_cast<size_t>(end - value.key.data()));
  }
  return bytes;
}

}  // namespace baton
