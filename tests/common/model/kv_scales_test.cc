// Scales of keys and values that a checkpoint brings for a KV cache of e4m3.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/common/model/fp8_model_fixture.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Scales of keys and values, by every name that they have.
class KvScalesTest : public Fp8ModelTest {
 protected:
  static json KvScheme() {
    return {{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}, {"dynamic", false}};
  }
  // Writes the first model with such scales of its two layers.
  static void WriteScaled(const std::string& name, const std::string& k_name,
                          const std::string& v_name, float k, float v) {
    Tensors tensors = TensorsIn(Dir("fp8"));
    for (const int layer : {0, 1}) {
      const std::string module = "model.layers." + std::to_string(layer) + ".self_attn.";
      tensors[module + k_name] = Floats({1}, {k});
      tensors[module + v_name] = Floats({1}, {v});
    }
    json config = ConfigIn(Dir("fp8"));
    config["quantization_config"]["kv_cache_scheme"] = KvScheme();
    WriteModel(Dir(name), config, tensors);
  }
  static std::unique_ptr<LoadedModel> WithKv(const std::string& name, const std::string& kv_dtype) {
    return MustLoad(Dir(name), {"cpu", "auto"}, "bfloat16", 512, kv_dtype);
  }
};

TEST_F(KvScalesTest, AreAppliedToACacheOfE4m3AndToNoOther) {
  const auto plain = WithKv("fp8", "fp8");
  const auto plain_bf16 = WithKv("fp8", "auto");
  for (const auto& [k, v] :
       {std::pair("k_scale", "v_scale"), std::pair("k_proj.k_scale", "v_proj.v_scale"),
        std::pair("k_proj.output_scale", "v_proj.output_scale"),
        std::pair("kv_scale", "kv_scale")}) {
    SCOPED_TRACE(k);
    WriteScaled("scaled", k, v, 0.011F, 0.011F);
    const auto scaled = WithKv("scaled", "fp8");
    EXPECT_NE(scaled->fingerprint, plain->fingerprint);
    EXPECT_NE(Tokens(*scaled), Tokens(*plain));
    EXPECT_EQ(Tokens(*WithKv("scaled", "auto")), Tokens(*plain_bf16));
  }
}

// Small keys and values, which e4m3 without scales rounds away, are kept by scales that fit.
TEST_F(KvScalesTest, BringTheNumbersIntoTheRangeOfTheCodes) {
  const auto exact = Tokens(*WithKv("fp8", "auto"));
  const auto same = [&](const std::string& name) {
    const auto tokens = Tokens(*WithKv(name, "fp8"));
    int count = 0;
    for (size_t s = 0; s < exact.size(); ++s) {
      const auto [first, second] =
          std::mismatch(exact[s].begin(), exact[s].end(), tokens[s].begin());
      count += static_cast<int>(first - exact[s].begin());
    }
    return count;
  };
  WriteScaled("fit", "k_scale", "v_scale", 0.01F, 0.01F);
  WriteScaled("coarse", "k_scale", "v_scale", 500, 500);
  EXPECT_GT(same("fit"), same("coarse"));
}

// The way in which a request runs does not show, as for any other cache.
TEST_F(KvScalesTest, AloneEqualsBatchedAndChunked) {
  WriteScaled("scaled", "k_scale", "v_scale", 0.02F, 0.03F);
  const auto model = WithKv("scaled", "fp8");
  const auto together = Tokens(*model);
  for (size_t s = 0; s < together.size(); ++s) {
    TestSequence sequence;
    for (size_t i = 0; i < 1 + s * 7; ++i) {
      sequence.prompt.push_back(static_cast<TokenId>((s * 37 + i * i * 11) % 256));
    }
    RunnerDriver(*model).Generate({&sequence}, 12, 3);
    EXPECT_EQ(sequence.output, together[s]) << s;
  }
}

TEST_F(KvScalesTest, AreRefusedByNameWhereTheyCannotBeMeant) {
  const auto refusal = [](const std::function<void(Tensors&)>& edit, const char* kv_dtype) {
    WriteScaled("edited", "k_scale", "v_scale", 0.02F, 0.03F);
    Tensors tensors = TensorsIn(Dir("edited"));
    edit(tensors);
    WriteModel(Dir("edited"), ConfigIn(Dir("edited")), tensors);
    ModelOptions options;
    options.kv.tokens = 512;
    options.kv_dtype = kernels::ParseKvDType(kv_dtype);
    return std::string(LoadModel(Dir("edited"), options, nullptr).status().message());
  };
  const std::string name = "model.layers.1.self_attn.v_scale";
  EXPECT_EQ(refusal([](Tensors&) {}, "fp8"), "");
  EXPECT_THAT(refusal([&](Tensors& tensors) { tensors.erase(name); }, "auto"),
              AllOf(HasSubstr(name), HasSubstr("is missing")));
  EXPECT_THAT(refusal(
                  [&](Tensors& tensors) {
                    tensors[name] = Floats({2}, {1, 1});
                  },
                  "auto"),
              AllOf(HasSubstr(name), HasSubstr("[2]"), HasSubstr("[1]")));
  EXPECT_THAT(refusal([&](Tensors& tensors) { tensors[name] = Floats({1}, {0}); }, "fp8"),
              AllOf(HasSubstr(name), HasSubstr("above 0")));
  EXPECT_THAT(
      refusal(
          [&](Tensors& tensors) { tensors["model.layers.1.self_attn.q_scale"] = Floats({1}, {1}); },
          "auto"),
      AllOf(HasSubstr("q_scale"), HasSubstr("has no place")));
}

// What is not kept as the checkpoint says does no harm to a cache of another type.
TEST_F(KvScalesTest, OfHeadsOrFoundOnTheWayAreRefusedWithACacheOfE4m3Alone) {
  const auto refusal = [](const std::string& kv_dtype) {
    ModelOptions options;
    options.kv.tokens = 512;
    options.kv_dtype = kernels::ParseKvDType(kv_dtype);
    return std::string(LoadModel(Dir("edited"), options, nullptr).status().message());
  };
  for (const auto& [key, value] :
       std::map<std::string, json>{{"strategy", "attn_head"}, {"dynamic", true}}) {
    WriteScaled("edited", "k_scale", "v_scale", 0.02F, 0.03F);
    Tensors tensors = TensorsIn(Dir("edited"));
    tensors["model.layers.0.self_attn.k_scale"] = Floats({2, 1, 1}, {0.02F, 0.03F});
    json config = ConfigIn(Dir("edited"));
    config["quantization_config"]["kv_cache_scheme"][key] = value;
    WriteModel(Dir("edited"), config, tensors);
    EXPECT_EQ(refusal("auto"), "");
    EXPECT_THAT(refusal("fp8"), AllOf(HasSubstr("--kv-dtype fp8"), HasSubstr("kv_cache_scheme")));
    config["quantization_config"].erase("kv_cache_scheme");
    WriteModel(Dir("edited"), config, tensors);
    EXPECT_THAT(refusal("auto"),
                AllOf(HasSubstr("self_attn.k_scale"), HasSubstr("expected a kv_cache_scheme")));
  }
}

}  // namespace
}  // namespace baton::test
