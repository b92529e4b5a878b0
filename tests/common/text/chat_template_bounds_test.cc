// What a chat template may ask of memory, of the stack and of time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/text/chat_template.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

std::string WordsOf(const absl::Status& status) { return std::string(status.message()); }

absl::StatusOr<std::string> Rendered(std::string_view source, ChatRenderOptions options = {}) {
  const std::vector<ChatMessage> messages = {{.role = "user", .content = "Hi"}};
  const auto compiled = ChatTemplate::FromSource(source, "<s>", "</s>");
  if (!compiled.ok()) return compiled.status();
  return (*compiled)->Render(messages, options);
}

// Refused while it is rendered, with these words.
void ExpectRefused(std::string_view source, std::string_view why) {
  const absl::Status status = Rendered(source).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << source;
  EXPECT_THAT(WordsOf(status), HasSubstr(why)) << source;
}

// A variable `text` of a million letters and `lines` of as many line ends.
std::string WithLongTexts(std::string_view source) {
  return "{% set text = 'a' * 1000000 %}{% set lines = '\n' * 1000000 %}" + std::string(source);
}

// ---- the source, time and the stack ----

TEST(ChatTemplateBounds, BoundsTheWorkOfOneRender) {
  const absl::Status status =
      Rendered(
          "{% for i in range(9999) %}{% for j in range(9999) %}{{ i }}{% endfor %}{% endfor %}")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(WordsOf(status), HasSubstr("steps"));
}

TEST(ChatTemplateBounds, RefusesRunawayRecursionAndHugeStrings) {
  EXPECT_FALSE(Rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").ok());
  EXPECT_FALSE(Rendered("{{ 'x' * 999999999999 }}").ok());
}

std::string Repeat(std::string_view text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

TEST(ChatTemplateBounds, RefusesChainsThatNoStackHolds) {
  constexpr int kDeep = 50'000;
  for (const std::string& source :
       {"{{ " + Repeat("not ", kDeep) + "1 }}", "{{ " + Repeat("-", kDeep) + "1 }}",
        "{{ 1" + Repeat("+1", kDeep) + " }}", "{{ 1" + Repeat("|string", kDeep) + " }}",
        "{{ a" + Repeat(".b", kDeep) + " }}", "{% set a = 1" + Repeat("+1", kDeep) + " %}",
        "\n{% raw %}{{ '{% endraw %}{{ 1" + Repeat(" and 1", kDeep) + " }}"}) {
    const absl::Status status = ChatTemplate::FromSource(source, "", "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(WordsOf(status), HasSubstr("has more than 2000 names, values and operators"))
        << source.substr(0, 30);
  }
  const std::string elifs = "{% if 0 %}" + Repeat("{% elif 0 %}", kDeep) + "{% endif %}";
  EXPECT_THAT(WordsOf(ChatTemplate::FromSource(elifs, "", "").status()),
              HasSubstr("more than 1000 elif"));
}

TEST(ChatTemplateBounds, TakesLongTagsAndManyElifs) {
  EXPECT_EQ(Rendered("{{ 1" + Repeat("+1", 900) + " }}").value(), "901");
  EXPECT_EQ(
      Rendered("{{ 1" + Repeat("|string", 900) + " }}" + Repeat("{{ 'elif' }}", 1001)).value(),
      "1" + Repeat("elif", 1001));
  EXPECT_EQ(
      Rendered("{% if 0 %}" + Repeat("{% elif 0 %}", 999) + "{% elif 1 %}x{% endif %}").value(),
      "x");
}

TEST(ChatTemplateBounds, BoundsItsSourceAndWhatItWrites) {
  const std::string large(size_t{1} << 20, 'x');
  EXPECT_EQ(Rendered(large).value(), large);
  EXPECT_THAT(WordsOf(ChatTemplate::FromSource(large + "x", "", "").status()),
              HasSubstr("1048577 bytes; at most 1048576"));
  const absl::Status status =
      Rendered("{% for i in range(100) %}{{ 'x' * 1000000 }}{% endfor %}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(WordsOf(status), HasSubstr("writes more than 67108864 bytes"));
}

// ---- widths and counts ----

TEST(ChatTemplateBounds, RefusesWidthsOfFormatsThatNoTextHas) {
  constexpr char kWhy[] = "has a width or precision of 999999999999; at most 65535";
  for (const char* source :
       {R"({{ "%999999999999d"|format(3) }})", R"({{ "a %-#0999999999999d"|format(3) }})",
        R"({{ "%(x)999999999999s"|format({"x": 1}) }})", R"({{ "%.999999999999f"|format(1.5) }})",
        R"({{ "%3.999999999999f"|format(1.5) }})", R"({{ "{:>999999999999}".format(1) }})",
        R"({{ "{:999999999999}".format("x") }})", R"({{ "{0:9<999999999999}".format(1) }})",
        R"({{ "{x:+#999999999999,}".format(x=1) }})", R"({{ "{:.999999999999f}".format(1.5) }})"}) {
    ExpectRefused(source, kWhy);
  }
  ExpectRefused(R"({{ "%65536d"|format(3) }})", "of 65536; at most 65535");
  ExpectRefused(R"({{ "{:65536}".format(3) }})", "of 65536; at most 65535");
  ExpectRefused("{{ ('%' ~ '9' * 40 ~ 'd')|format(3) }}", "at most 65535");
}

TEST(ChatTemplateBounds, TakesWidthsThatTextsHaveAndNumbersThatAreNone) {
  EXPECT_EQ(
      Rendered(R"({{ "%65535d"|format(3)|length }} {{ "{:65535}".format(3)|length }})").value(),
      "65535 65535");
  EXPECT_EQ(Rendered(R"({{ "%5.2f|%-4d|%04d 99999999%%99999999d"|format(1.5, 2, 3) }})").value(),
            " 1.50|2   |0003 99999999%99999999d");
  EXPECT_EQ(Rendered(R"({{ "%(k99999999)s 99999999"|format({"k99999999": 7}) }})").value(),
            "7 99999999");
  EXPECT_EQ(Rendered(R"({{ "99999999 {0:9<4}{{:99999999}}{1[k:99999999]}{2:^5}"
                           .format(8, {"k:99999999": 1}, "x") }})")
                .value(),
            "99999999 8999{:99999999}1  x  ");
}

TEST(ChatTemplateBounds, RefusesFormatsThatRepeatLongTexts) {
  ExpectRefused("{{ ('{0:65535}' * 100000).format(1) }}", "may make more than 67108864 bytes");
  ExpectRefused(WithLongTexts("{{ ('{0}' * 1000).format(text) }}"), "may make more than 67108864");
  ExpectRefused(WithLongTexts("{{ ('%(x)s' * 1000)|format({'x': text}) }}"), "may make more than");
  EXPECT_EQ(Rendered(WithLongTexts("{{ '{0}{0}'.format(text)|length }}")).value(), "2000000");
}

TEST(ChatTemplateBounds, RefusesBatchesAndSlicesThatNoListFills) {
  constexpr char kWhy[] = "a count of 99999999999; at most 65535";
  ExpectRefused("{{ [1]|batch(99999999999, 0)|list|length }}", kWhy);
  ExpectRefused("{{ [1]|slice(99999999999)|list|length }}", kWhy);
  ExpectRefused("{{ [[1]]|map('slice', 99999999999)|list|length }}", kWhy);
  EXPECT_EQ(Rendered("{{ [1, 2, 3]|batch(2, 0)|list }}{{ [1, 2, 3]|slice(2)|list }}"
                     "{{ [1]|batch(65535, 0)|first|length }}{{ [1]|slice(65535)|list|length }}")
                .value(),
            "[[1, 2], [3, 0]][[1, 2], [3]]6553565535");
}

// ---- texts that grow ----

TEST(ChatTemplateBounds, RefusesReplacementsThatMakeTooMuch) {
  constexpr char kWhy[] = "would make more than 67108864 bytes";
  ExpectRefused(WithLongTexts("{{ text|replace('a', text)|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ text|replace('', text)|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ text.replace('a', text)|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ text.replace('a', text, 1000)|length }}"), kWhy);
  EXPECT_EQ(
      Rendered(WithLongTexts("{{ text.replace('a', text, 9)|length }}"
                             "{{ text|replace('aa', 'b')|length }}{{ 'aba'|replace('a', '') }}"
                             "{{ 'aba'|replace('', '-') }}{{ 12|replace(1, 3) }}"))
          .value(),
      "9999991500000b-a-b-a-32");
}

TEST(ChatTemplateBounds, RefusesJoinsAndIndentsThatMakeTooMuch) {
  constexpr char kWhy[] = "would make more than 67108864 bytes";
  ExpectRefused(WithLongTexts("{{ range(1000)|join(text)|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ ([text] * 1000)|join|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ text.join(range(1000))|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ (lines ~ 'a')|indent(200, true, true)|length }}"), kWhy);
  EXPECT_EQ(Rendered("{{ [1, 'a', 2.5, true, [1]]|join('-') }}|{{ '+'.join(['a', 'b']) }}|"
                     "{{ ['a', 'b']|join }}|{{ 'ab'|join(',') }}")
                .value(),
            "1-a-2.5-True-[1]|a+b|ab|a,b");
}

TEST(ChatTemplateBounds, RefusesJsonAndPrintsThatMakeTooMuch) {
  constexpr char kWhy[] = "would make more than 67108864 bytes";
  ExpectRefused(WithLongTexts("{{ range(1000)|list|tojson(separators=(text, ':'))|length }}"),
                kWhy);
  ExpectRefused(WithLongTexts("{{ ([text] * 1000)|tojson|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ ([text] * 1000)|string|length }}"), kWhy);
  ExpectRefused(WithLongTexts("{{ [text] * 1000 }}"), kWhy);
}

TEST(ChatTemplateBounds, RefusesListsThatClaimMoreElementsThanAnyHas) {
  constexpr char kWhy[] = "more than 4194304 elements";
  for (const char* filter : {"list",
                             "sort",
                             "unique",
                             "reverse",
                             "last",
                             "map('string')",
                             "select",
                             "reject",
                             "sum",
                             "min",
                             "max",
                             "batch(2)",
                             "slice(2)",
                             "groupby('a')",
                             "join",
                             "selectattr('a')",
                             "rejectattr('a')",
                             "zip([1])|list",
                             "chain([1])|list",
                             "tojson",
                             "string",
                             "pprint"}) {
    ExpectRefused("{{ ([1] * 99999999999)|" + std::string(filter) + "|length }}", kWhy);
  }
  // A length that does not fit wraps around, and a slice does not tell its own.
  ExpectRefused("{{ ([1, 2] * 9223372036854775808)|list|length }}", kWhy);
  ExpectRefused("{{ ([1] * 99999999999)[0:]|list|length }}", kWhy);
  ExpectRefused("{{ [1] * 99999999999 }}", kWhy);
  ExpectRefused("{{ [[1] * 99999999999] }}", kWhy);
  ExpectRefused("{{ '-'.join([1] * 99999999999) }}", kWhy);
  ExpectRefused("{{ debug([1] * 99999999999) }}", "unknown function");
  EXPECT_EQ(Rendered("{{ ([1] * 4194304)|list|length }}{{ ([3, 1] * 2)|sort }}").value(),
            "4194304[1, 1, 3, 3]");
}

}  // namespace
}  // namespace baton
