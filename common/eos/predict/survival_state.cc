#include "common/eos/predict/survival_state.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/eos/predict/sealed_json.h"

namespace baton {
namespace {

constexpr std::string_view kFormat = "baton-predictor-state";
constexpr int32_t kVersion = 1;

absl::Status Failed(const char* what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(errno)));
}

}  // namespace

absl::Status SaveSurvival(const LearntSurvival& survival, std::string_view model_fingerprint,
                          const std::string& path) {
  const std::string text = SealJson(kFormat, kVersion, survival.ToJson(model_fingerprint));
  // Others may save there, too.
  return WriteWholeFile(path, text, absl::StrCat(".new.", getpid()));
}

absl::Status LoadSurvival(const std::string& path, std::string_view model_fingerprint,
                          LearntSurvival* survival) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat("there is no ", path))
                           : Failed("open", path);
  }
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) return Failed("read", path);
  const std::string whole = std::move(text).str();
  BATON_ASSIGN_OR_RETURN(const std::string_view body, OpenSealedJson(whole, kFormat, kVersion));
  return survival->FromJson(body, model_fingerprint);
}

}  // namespace baton
