#include "common/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tests/common/text/test_files.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::baton::testing::ReadFile;
using ::baton::testing::SourcePath;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<ChatTemplate> Compile(std::string_view source) {
  auto compiled = ChatTemplate::FromSource(source, "<s>", "</s>");
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? std::move(compiled).value() : nullptr;
}

std::string Refusal(std::string_view source) {
  return Message(ChatTemplate::FromSource(source, "<s>", "</s>").status());
}

absl::StatusOr<std::string> Render(std::string_view source, ChatRenderOptions options = {}) {
  const std::vector<ChatMessage> messages = {{.role = "user", .content = "Hi"}};
  const auto compiled = Compile(source);
  if (compiled == nullptr) return absl::InternalError("did not compile");
  return compiled->Render(messages, options);
}

// ---- goldens of transformers ----

std::vector<ChatMessage> MessagesOf(const nlohmann::ordered_json& list) {
  std::vector<ChatMessage> messages;
  for (nlohmann::ordered_json item : list) {
    ChatMessage message{.role = item["role"], .content = item["content"]};
    item.erase("role");
    item.erase("content");
    if (!item.empty()) message.fields_json = item.dump();
    messages.push_back(message);
  }
  return messages;
}

TEST(ChatTemplate, RendersAsTransformers) {
  const auto golden =
      nlohmann::ordered_json::parse(ReadFile(SourcePath("tests/golden/text/chat.golden.json")));
  int rendered = 0;
  int refused = 0;
  for (const auto& item : golden["cases"]) {
    const std::string name = item["template"];
    const std::string where = name + " " + item["conversation"].get<std::string>();
    const auto compiled = ChatTemplate::FromSource(golden["templates"][name].get<std::string>(),
                                                   item["bos_token"].get<std::string>(),
                                                   item["eos_token"].get<std::string>());
    ASSERT_TRUE(compiled.ok()) << where << compiled.status();
    const ChatRenderOptions options = {.add_generation_prompt = item["add_generation_prompt"],
                                       .variables_json = item["extra"].dump()};
    const auto text = (*compiled)->Render(MessagesOf(item["messages"]), options);
    if (item.contains("error")) {
      EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << where;
      EXPECT_EQ(Message(text.status()), item["error"].get<std::string>()) << where;
      ++refused;
    } else {
      ASSERT_TRUE(text.ok()) << where << text.status();
      EXPECT_EQ(*text, item["expected"].get<std::string>()) << where << item["extra"];
      ++rendered;
    }
  }
  EXPECT_GT(rendered, 100);
  EXPECT_GT(refused, 5);
}

// ---- what transformers' jinja has beyond plain jinja ----

TEST(ChatTemplate, TojsonWritesAsPython) {
  const ChatRenderOptions options = {
      .variables_json = R"({"v":{"b":[1,2.0,1e20,1e-7,null,true],"a":"é<\n\u0001'"}})"};
  EXPECT_EQ(Render("{{ v|tojson }}", options).value(),
            R"({"b": [1, 2.0, 1e+20, 1e-07, null, true], "a": "é<\n\u0001'"})");
  EXPECT_EQ(Render("{{ v|tojson(ensure_ascii=true, sort_keys=true) }}", options).value(),
            R"({"a": "\u00e9<\n\u0001'", "b": [1, 2.0, 1e+20, 1e-07, null, true]})");
  EXPECT_EQ(Render("{{ {'k':[1],'e':[]}|tojson(indent=2) }}").value(),
            "{\n  \"k\": [\n    1\n  ],\n  \"e\": []\n}");
  EXPECT_EQ(Render("{{ [1,{'a':2}]|tojson(separators=(',',':')) }}").value(), R"([1,{"a":2}])");
}

TEST(ChatTemplate, PrintsConstantsAsPython) {
  EXPECT_EQ(Render("{{ none }} {{ true }} {{ false }} {{ 1.0 }} {{ missing }}.").value(),
            "None True False 1.0 .");
}

TEST(ChatTemplate, PrintsContainersAndFloatsAsPython) {
  const ChatRenderOptions options = {
      .variables_json = R"({"d":{"b":1,"a":["x",{"z":null}],"q":"it's\n"},"e":1e-7,"f":0.5})"};
  const std::string expected = R"({'b': 1, 'a': ['x', {'z': None}], 'q': "it's\n"})";
  EXPECT_EQ(Render("{{ d }}", options).value(), expected);
  EXPECT_EQ(Render("{{ d|string }}|{{ e }}|{{ f }}|{{ e|string }}", options).value(),
            expected + "|1e-07|0.5|1e-07");
  EXPECT_EQ(Render("{{ ['\\'\"', 'a\\\\b', '\\t'] }}").value(), R"(['\'"', 'a\\b', '\t'])");
}

TEST(ChatTemplate, ReadsStringsAsPython) {
  EXPECT_EQ(Render("{{ 'one \\\n\\\ntwo' }}|{%- if 'a\\\nb' == 'ab' %}yes{% endif %}").value(),
            "one two|yes");
  EXPECT_EQ(Render(R"({{ "\U0001F600 \u20ac \xe9 \101\7z \a\b\f\v \/ \d \é" }})").value(),
            "\U0001F600 \u20ac é A\az \a\b\f\v \\/ \\d \\xe9");
  EXPECT_EQ(Render(R"({{ "it's \"it\" \\" ~ 'it\'s "it"' }})").value(), R"(it's "it" \it's "it")");
  EXPECT_EQ(Render(R"({{ {'a': {'\x62': '\U00000063'}} }} {{ "}}\x64{{ '" }})").value(),
            "{'a': {'b': 'c'}} }}d{{ '");
  EXPECT_EQ(Render(R"({{ "\ud83d\ude00" }})").value(), "\U0001F600");
  EXPECT_EQ(Render(R"({{ "{%}" }})").value(), "{%}");
}

TEST(ChatTemplate, LeavesAloneWhatIsNoString) {
  EXPECT_EQ(
      Render(R"('\x41'{# "\x41 #}{%- raw -%} {{ '\x41' }}{% endraw %}{{ '\x41' }}'\x41')").value(),
      R"('\x41'{{ '\x41' }}A'\x41')");
}

TEST(ChatTemplate, RefusesStringsThatPythonRefusesAndNamesOfCharacters) {
  const std::pair<const char*, const char*> refusals[] = {
      {R"(\x4)", "\\x4; expected 2 hexadecimal digits"},
      {R"(\x4g)", "\\x4g; expected 2"},
      {R"(\u12)", "\\u12; expected 4"},
      {R"(\U0001F60)", "\\U0001F60; expected 8"},
      {R"(\U00110000)", "110000, which is no character"},
      {R"(\ud83d!)", "d83d, which is no character"},
      {R"(\ud83d\u0041)", "d83d, which is no character"},
      {R"(\N{BULLET})", "write the character itself"}};
  for (const auto& [text, why] : refusals) {
    EXPECT_THAT(Refusal("{{ '" + std::string(text) + "' }}"), HasSubstr(why));
  }
  EXPECT_THAT(Refusal(R"({{ "\x41 }})"), HasSubstr("unexpected end of string"));
}

TEST(ChatTemplate, PrintsJoinedListsAndSlicesAsPython) {
  const ChatRenderOptions options = {.variables_json = R"({"m":["a"]})"};
  EXPECT_EQ(
      Render("{{ m + ['b'] }}{{ m[0:] }}{{ (m + [{'a': m[:1]}])|string }}{{ {'a': m + ['b']} }}",
             options)
          .value(),
      "['a', 'b']['a']['a', {'a': ['a']}]{'a': ['a', 'b']}");
}

TEST(ChatTemplate, TestsForSequencesAsPython) {
  const ChatRenderOptions options = {.variables_json = R"({"m":["a"]})"};
  EXPECT_EQ(Render("{{ 'x' is sequence }} {{ {} is sequence }} {{ [] is sequence }} "
                   "{{ (m + [1]) is sequence }} {{ m[1:] is sequence }} {{ u is sequence }} "
                   "{{ range(3) is sequence }}",
                   options)
                .value(),
            "True True True True True True True");
  EXPECT_EQ(Render("{{ none is sequence }} {{ 1 is sequence }} {{ none is iterable }} "
                   "{{ 1 is iterable }} {{ {} is iterable }} {{ u is iterable }}")
                .value(),
            "False False False False True True");
}

TEST(ChatTemplate, RoundsAsPython) {
  EXPECT_EQ(Render("{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 7|round }} "
                   "{{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} "
                   "{{ 1234.5|round(-2) }} {{ -2.5|round }} {{ 15|round(-1) }} "
                   "{{ 7|round(method='ceil') }}")
                .value(),
            "2.0 4.0 2.67 7 3.0 2.0 1200.0 -2.0 20 7.0");
  EXPECT_THAT(Message(Render("{{ 1|round(0, 'up') }}").status()), HasSubstr("but not up"));
  EXPECT_THAT(Message(Render("{{ 'a'|round }}").status()), HasSubstr("cannot round"));
}

TEST(ChatTemplate, KnowsThePythonMethodsThatTemplatesUse) {
  EXPECT_EQ(Render("{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.rsplit(none, 1) }}").value(),
            "['a,b', 'c'] [' a  b', 'c']");
  EXPECT_EQ(Render("{{ 'a.b.c'.partition('.')[2] }} {{ 'a.b.c'.rpartition('.')[0] }}").value(),
            "b.c a.b");
  EXPECT_EQ(Render("{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}"
                   "{{ 'abc'.removeprefix('z') }}{{ 'éb'.index('b') }}")
                .value(),
            "bcababc1");
  EXPECT_FALSE(Render("{{ 'abc'.index('z') }}").ok());
  EXPECT_FALSE(Render("{{ 'abc'.nonsense() }}").ok());
  EXPECT_EQ(Render("{{ 'a\n\nb\n'|indent(2) }}|{{ 'a'|indent(2, true) }}").value(),
            "a\n\n  b\n|  a");
}

// Expected is what Python says.
TEST(ChatTemplate, PlacesInStringsAreCountedInCharacters) {
  EXPECT_EQ(Render("{% set text = 'é中</think>ok' %}{{ text[text.find('</think>'):] }}").value(),
            "</think>ok");
  EXPECT_EQ(Render("{{ 'éaéa'.find('a') }} {{ 'éaéa'.rfind('a') }} {{ 'éa'.find('z') }} "
                   "{{ 'éaéa'.find('a', 2) }} {{ 'éaéa'.rfind('a', 0, -1) }} "
                   "{{ 'éaéa'.find('a', -1) }} {{ 'éa'.find('', 2) }} {{ 'éa'.find('', 3) }} "
                   "{{ 'éaéa'.rindex('é') }} {{ 'éaéa'.find('a', none, 1) }}")
                .value(),
            "1 3 -1 3 1 3 2 -1 2 -1");
  EXPECT_EQ(Render("{{ 'éaéa'.count('é') }} {{ 'éa'.count('') }} {{ ''.count('') }} "
                   "{{ 'aaa'.count('aa') }} {{ 'éaéa'.count('a', 2) }} {{ 'a'.count('', 2) }}")
                .value(),
            "2 3 1 1 1 0");
  EXPECT_FALSE(Render("{{ 'abc'.rindex('z') }}").ok());
  EXPECT_FALSE(Render("{{ 'abc'.find() }}").ok());
}

TEST(ChatTemplate, StringsAnswerAsPythonsDo) {
  EXPECT_EQ(Render("{{ ''.isdigit() }} {{ ''.isalpha() }} {{ ''.isalnum() }} {{ ''.isspace() }} "
                   "{{ ''.isupper() }} {{ ''.islower() }} {{ '1'.isdigit() }} {{ ' '.isspace() }}")
                .value(),
            "False False False False False False True True");
  EXPECT_EQ(Render("{{ 'A B1'.isupper() }} {{ 'a b1'.islower() }} {{ 'aB'.isupper() }} "
                   "{{ 'aB'.islower() }} {{ '1'.isupper() }}")
                .value(),
            "True True False False False");
  EXPECT_EQ(Render(R"({{ 'a\r\nb\u2028c\rd\n\ne'.splitlines() }} {{ ''.splitlines() }})").value(),
            "['a', 'b', 'c', 'd', '', 'e'] []");
  EXPECT_EQ(Render(R"({{ 'a\r\nb\n'.splitlines(true) }})").value(), R"(['a\r\n', 'b\n'])");
}

TEST(ChatTemplate, TakesTheTimeAsAnArgument) {
  const ChatRenderOptions options = {.unix_time = 1709209845.5};  // 2024-02-29 12:30:45 UTC
  EXPECT_EQ(
      Render("{{ strftime_now('%d %b %Y|%A, %B %-d|%Y-%m-%d %H:%M:%S|%j %I %p %%') }}", options)
          .value(),
      "29 Feb 2024|Thursday, February 29|2024-02-29 12:30:45|060 12 PM %");
  EXPECT_EQ(Render("{{ strftime_now('%F %T %a') }}").value(), "1970-01-01 00:00:00 Thu");
  EXPECT_THAT(Message(Render("{{ strftime_now('%Q') }}").status()), HasSubstr("%Q"));
}

TEST(ChatTemplate, KnowsGenerationTagsLoopControlsAndPythonMethods) {
  EXPECT_EQ(Render("{% generation %}{{ messages[0].content }}{% endgeneration %}!").value(), "Hi!");
  EXPECT_EQ(Render("a\n{%- generation -%}\n b\n{%- endgeneration -%}\n c").value(), "abc");
  EXPECT_EQ(Render("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}"
                   "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}")
                .value(),
            "013");
  EXPECT_EQ(Render("{{ ' x-y '.strip().split('-')[::-1] | join('+') }}").value(), "y+x");
  EXPECT_EQ(Render("{{ 'abc'[::-1] }}{{ 'ab'.upper() }}{{ {'k':1}.get('z', 7) }}").value(),
            "cbaAB7");
  EXPECT_EQ(Render("{{ nothing is defined }}{{ none|length }}{{ bos_token }}").value(),
            "False0<s>");
}

TEST(ChatTemplate, ToolsAndDocumentsAreNoneWhereNobodyGivesThem) {
  const char* const source =
      "{{ tools }}{{ tools is defined }}{% if tools is not none %}T{% endif %}"
      "{{ documents }}{{ documents is defined }}{% if documents is not none %}D{% endif %}";
  EXPECT_EQ(Render(source).value(), "NoneTrueNoneTrue");
  EXPECT_EQ(Render(source, {.variables_json = R"({"tools":[1]})"}).value(), "[1]TrueTNoneTrue");
}

TEST(ChatTemplate, ReadsEveryLineEndOfTheSourceAsOneNewline) {
  EXPECT_EQ(Render("a\r\nb\rc\r\n\r\n").value(), "a\nb\nc\n");
  EXPECT_EQ(Render("{% if true %}\r\n  x\r\n  {% endif %}\r\ny{{ 'p\r\nq' }}\r").value(),
            "  x\nyp\nq");
  EXPECT_EQ(Render("{{ 'p\\r\\nq' }}{{ v }}", {.variables_json = R"({"v":"\r\n"})"}).value(),
            "p\r\nq\r\n");
}

TEST(ChatTemplate, TrimsBlocksAsTransformers) {
  EXPECT_EQ(Render("{% if true %}\n  x\n  {% endif %}\ny").value(), "  x\ny");
}

TEST(ChatTemplate, GivesContentInPartsToTemplatesThatNeedThem) {
  const char* const parts =
      "{% for m in messages %}{% for c in m['content'] %}{% if c['type'] == 'text' %}"
      "[{{ c['text'] }}]{% endif %}{% endfor %}{% endfor %}";
  EXPECT_EQ(Render(parts).value(), "[Hi]");
  const char* const either =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}parts{% endif %}"
      "{% endfor %}";
  EXPECT_EQ(Render(either).value(), "Hi");
}

// ---- refusals ----

TEST(ChatTemplate, RefusesWithTheTemplatesOwnWords) {
  const absl::Status status =
      Render("{{ raise_exception('Conversation roles must alternate') }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), Reason::kInvalidText);
  EXPECT_EQ(DetailOf(status).field, "messages");
  EXPECT_EQ(Message(status), "Conversation roles must alternate");
}

TEST(ChatTemplate, RefusesTextThatIsNotUtf8AndVariablesThatAreNotAnObject) {
  const auto compiled = Compile("{{ messages[0].content }}");
  ASSERT_NE(compiled, nullptr);
  const std::vector<ChatMessage> invalid = {{.role = "user", .content = "\xFF"}};
  EXPECT_EQ(ReasonOf(compiled->Render(invalid, {}).status()), Reason::kInvalidText);
  EXPECT_THAT(Message(Render("x", {.variables_json = "[1]"}).status()), HasSubstr("JSON object"));
  EXPECT_THAT(Message(Render("x", {.variables_json = "{"}).status()), HasSubstr("valid JSON"));
}

TEST(ChatTemplate, RefusesSourceThatDoesNotParse) {
  for (const char* source : {"{% if %}", "{{ a", "{% for %}{% endif %}", "{% unknown_tag %}"}) {
    EXPECT_EQ(ChatTemplate::FromSource(source, "", "").status().code(),
              absl::StatusCode::kInvalidArgument)
        << source;
  }
}

// ---- where templates are found ----

std::string RenderDir(const ScratchFolder& dir, const std::string& variables = "") {
  const auto loaded = ChatTemplate::Load(dir.path());
  if (!loaded.ok()) return loaded.status().ToString();
  const std::vector<ChatMessage> messages = {{.role = "user", .content = "Hi"}};
  const auto text = (*loaded)->Render(messages, {.variables_json = variables});
  return text.ok() ? *text : text.status().ToString();
}

TEST(ChatTemplateLoad, TakesTheStringOfTokenizerConfigWithItsSpecialTokens) {
  const ScratchFolder dir;
  dir.Write("tokenizer_config.json",
            R"({"bos_token":{"content":"<B>","special":true},"eos_token":"<E>","pad_token":null,
                "chat_template":"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}"})");
  EXPECT_EQ(RenderDir(dir), "<B>Hi<E>False");
}

TEST(ChatTemplateLoad, PrefersTheJinjaFile) {
  const ScratchFolder dir;
  dir.Write("tokenizer_config.json", R"({"bos_token":"<B>","chat_template":"old"})");
  dir.Write("chat_template.jinja", "{{ bos_token }}new");
  EXPECT_EQ(RenderDir(dir), "<B>new");
}

TEST(ChatTemplateLoad, FallsBackToChatTemplateJson) {
  const ScratchFolder dir;
  dir.Write("tokenizer_config.json", R"({"chat_template":null})");
  dir.Write("chat_template.json", R"({"chat_template":"from json"})");
  EXPECT_EQ(RenderDir(dir), "from json");
}

TEST(ChatTemplateLoad, ChoosesAmongNamedTemplates) {
  const ScratchFolder dir;
  dir.Write("tokenizer_config.json",
            R"({"chat_template":[{"name":"tool_use","template":"with tools"},
                                 {"name":"default","template":"plain"}]})");
  EXPECT_EQ(RenderDir(dir), "plain");
  EXPECT_EQ(RenderDir(dir, R"({"tools":[]})"), "with tools");
  EXPECT_EQ(RenderDir(dir, R"({"tools":null})"), "plain");
}

TEST(ChatTemplateLoad, SaysThatAModelHasNone) {
  const ScratchFolder dir;
  EXPECT_EQ(ChatTemplate::Load(dir.path()).status().code(), absl::StatusCode::kNotFound);
  dir.Write("tokenizer_config.json", "{}");
  EXPECT_EQ(ChatTemplate::Load(dir.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST(ChatTemplateLoad, RefusesFilesThatAreWrong) {
  for (const char* config :
       {"", "[]", "{\"chat_template\":1}", "{\"chat_template\":[{\"name\":\"default\"}]}",
        "{\"chat_template\":[{\"name\":\"a\",\"template\":\"\"},{\"name\":\"b\",\"template\":\"\"}]"
        "}",
        "{\"chat_template\":\"{% if\"}", "{\"chat_template\":\"x\",\"bos_token\":7}"}) {
    const ScratchFolder dir;
    dir.Write("tokenizer_config.json", config);
    const absl::Status status = ChatTemplate::Load(dir.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(Message(status), HasSubstr("tokenizer_config.json")) << config;
  }
}

}  // namespace
}  // namespace baton
