#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/model/random/random_model.h"
#include "tools/commands.h"

namespace baton {
namespace {

void BindShape(FlagSet* set, RandomModelSpec* spec) {
  const std::string group = "Shape";
  const IntRange positive = {.min = 1};
  set->Add(Common(With(IntFlag("layers", &spec->layers, positive), group, "transformer layers")));
  set->Add(Common(
      With(IntFlag("hidden", &spec->hidden, positive), group, "width of the residual stream")));
  set->Add(Common(With(IntFlag("heads", &spec->heads, positive), group, "query heads")));
  set->Add(Common(With(IntFlag("kv-heads", &spec->kv_heads, positive), group,
                       "key and value heads; divides --heads")));
  set->Add(Common(With(IntFlag("head-dim", &spec->head_dim, positive), group,
                       "width of a head; a multiple of 8, at most 256")));
  set->Add(
      Common(With(IntFlag("ffn", &spec->ffn, positive), group, "width of the feed-forward layer")));
  set->Add(Common(With(IntFlag("vocab", &spec->vocab, {.min = 258}), group,
                       "number of ids: 256 bytes, BOS, EOS; further ids have no text")));
  set->Add(With(IntFlag("max-positions", &spec->max_positions, positive), group, "context length"));
  set->Add(With(SwitchFlag("tied-embeddings", &spec->tied_embeddings), group,
                "input and output embedding are one"));
}

template <typename T>
Choices<std::string> Words(const T& words) {
  Choices<std::string> choices;
  for (const char* word : words) choices.emplace_back(word, word);
  return choices;
}

}  // namespace

int ModelMakeRandomCommand(const Invocation& call) {
  std::string directory;
  RandomModelSpec spec;
  std::optional<uint64_t> seed;
  FlagSet set("baton model make-random", "model",
              "Writes a model of a shape with random weights and a byte tokenizer; servable.");
  Flag out = TextFlag("out", &directory);
  out.value = "OUT";
  out.help = "a directory, new or empty";
  out.positional = out.required = true;
  set.Add(std::move(out));
  const std::vector<const char*> archs = {"llama", "mistral", "qwen2", "qwen3"};
  const std::vector<const char*> dtypes = {"float32", "bfloat16", "float16"};
  set.Add(Common(With(ChoiceFlag("arch", &spec.arch, Words(archs)), "Model", "architecture")));
  set.Add(Common(
      With(ChoiceFlag("dtype", &spec.dtype, Words(dtypes)), "Model", "type of the weights")));
  set.Add(
      Common(With(OptionalUint64Flag("seed", &seed), "Model", "seed of the weights; default 0")));
  BindShape(&set, &spec);
  if (const auto exit = call.Read(&set)) return *exit;
  spec.seed = seed.value_or(0);
  const absl::Status status = WriteRandomModel(spec, directory);
  if (status.ok()) {
    Print(directory + "\n");
    return 0;
  }
  const bool usage = status.code() == absl::StatusCode::kInvalidArgument ||
                     status.code() == absl::StatusCode::kAlreadyExists;
  return ReportFatal(set.program(),
                     {.code = usage ? ExitCode::kUsage : ExitCode::kResources,
                      .what = "cannot write a model into " + directory,
                      .why = std::string(status.message().data(), status.message().size()),
                      .next = "baton model make-random --help"});
}

}  // namespace baton
