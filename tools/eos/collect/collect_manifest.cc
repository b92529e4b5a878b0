#include "tools/eos/collect/collect_manifest.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kSchema[] = "baton.eos.collected/1";
constexpr const char* kFiles[] = {CollectStore::kRows, CollectStore::kRequests,
                                  CollectStore::kProjections};

OrderedJson ModelJson(const v1::GetModelInfoResponse& model) {
  OrderedJson stop_ids = OrderedJson::array();
  for (const v1::EosToken& token : model.eos_tokens()) {
    OrderedJson sources = OrderedJson::array();
    for (const int source : token.sources()) {
      sources.push_back(v1::EosTokenSource_Name(static_cast<v1::EosTokenSource>(source)));
    }
    stop_ids.push_back({{"id", token.id()}, {"text", token.text()}, {"sources", sources}});
  }
  return {{"name", model.name()},
          {"fingerprint", model.fingerprint()},
          {"architecture", model.architecture()},
          {"vocab_size", model.vocab_size()},
          {"layers", model.layers()},
          {"max_model_len", model.max_model_len()},
          {"compute_dtype", model.compute_dtype()},
          {"stop_ids", stop_ids}};
}

// What holds for every request: that of the grid, and the server's defaults for the rest.
OrderedJson SamplerJson(const v1::SamplingDefaults& defaults, const CollectGrid& grid) {
  return {{"top_p", AsGiven(grid.top_p)},
          {"top_k", defaults.top_k()},
          {"min_p", AsGiven(defaults.min_p())},
          {"repetition_penalty", AsGiven(defaults.repetition_penalty())}};
}

OrderedJson FamiliesJson(const CollectCounts& counts) {
  OrderedJson families = OrderedJson::object();
  for (const auto& [name, family] : counts.families) {
    families[name] = {
        {"requests", family.requests}, {"rows", family.rows}, {"ended", family.ended}};
  }
  return families;
}

// What must be the same for answers to stand in one folder.
OrderedJson Identity(const CollectManifest& manifest) {
  return {{"prompts", {{"count", manifest.prompts}, {"sha256", manifest.prompts_sha256}}},
          {"grid", GridJson(manifest.grid)},
          {"model", ModelJson(manifest.model)},
          {"sampler", SamplerJson(manifest.model.default_sampling(), manifest.grid)}};
}

absl::StatusOr<OrderedJson> FilesJson(const std::string& folder) {
  OrderedJson files = OrderedJson::object();
  for (const char* name : kFiles) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::error_code missing;
    const uintmax_t bytes = std::filesystem::file_size(path, missing);
    if (missing) continue;
    BATON_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(path));
    files[name] = {{"bytes", bytes}, {"sha256", sha256}};
  }
  return files;
}

// What stands under a key; null where there is no such thing, or nothing that could have it.
OrderedJson At(const OrderedJson& json, const std::string& key) {
  return json.is_object() && json.contains(key) ? json[key] : OrderedJson();
}

absl::Status AnotherSet(const std::string& folder, std::string_view found,
                        std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " holds answers of another set: found ", std::string(found),
                   "; expected ", std::string(expected), "; name another folder with --out"));
}

}  // namespace

absl::Status CheckManifest(const std::string& folder, const CollectManifest& manifest) {
  const std::string path = absl::StrCat(folder, "/", kManifest);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) {
    // Whatever these files are, going on would cut them.
    for (const char* name : kFiles) {
      const std::filesystem::path file = absl::StrCat(folder, "/", name);
      if (!std::filesystem::exists(file, unknown) || std::filesystem::is_empty(file, unknown))
        continue;
      return AnotherSet(folder, absl::StrCat(name, " and no ", kManifest), "both or none");
    }
    return absl::OkStatus();
  }
  std::ifstream file(path);
  const OrderedJson before = OrderedJson::parse(file, nullptr, false);
  if (At(before, "schema") != kSchema) {
    return AnotherSet(folder, absl::StrCat("no ", kSchema, " in ", kManifest), kSchema);
  }
  const OrderedJson identity = Identity(manifest);
  for (const auto& [key, now] : identity.items()) {
    for (const auto& [part, value] : now.items()) {
      const OrderedJson was = At(At(before, key), part);
      if (was == value) continue;
      return AnotherSet(folder, absl::StrCat(key, ".", part, " ", was.dump()), value.dump());
    }
  }
  return absl::OkStatus();
}

absl::Status WriteManifest(const std::string& folder, const CollectManifest& manifest) {
  BATON_ASSIGN_OR_RETURN(const OrderedJson files, FilesJson(folder));
  OrderedJson json = {{"schema", kSchema},
                      {"program", absl::StrCat("baton ", std::string(base::Version()))},
                      {"complete", manifest.counts.requests == manifest.requests}};
  json.update(Identity(manifest));
  json["prompts"]["file"] = manifest.prompts_path;
  json["families"] = FamiliesJson(manifest.counts);
  json["counts"] = {{"planned", manifest.requests},
                    {"requests", manifest.counts.requests},
                    {"rows", manifest.counts.rows},
                    {"failed", manifest.failed}};
  json["projections"] =
      manifest.grid.hidden
          ? OrderedJson({{"width", manifest.width}, {"dtype", "float32, little-endian"}})
          : OrderedJson(nullptr);
  json["files"] = files;
  return WriteWholeFile(absl::StrCat(folder, "/", kManifest), json.dump(2) + "\n");
}

}  // namespace baton
