#include "io/document.hpp"

#include <string>

#include "base/text.hpp"
#include "support/catch.hpp"

using namespace hpplan;

namespace {

/// What `read` and the final check say about `text`, one line per fault, hints left out.
template <typename Read>
std::string faults_of(const std::string& text, const Read& read) {
  try {
    const Document document = Document::parse(text, "f");
    read(document.root());
    document.finish();
  } catch (const InputError& error) {
    std::vector<std::string> lines;
    for (Diagnostic diagnostic : error.diagnostics()) {
      diagnostic.hint.clear();
      lines.push_back(to_text(diagnostic));
    }
    return join(lines, "\n");
  }
  return "";
}

std::string syntax_fault(const std::string& text) {
  return faults_of(text, [](const Reader& root) { (void)root.entries(); });
}

std::string hint_of(const std::string& text, void (*read)(const Reader&)) {
  try {
    const Document document = Document::parse(text, "f");
    read(document.root());
    document.finish();
  } catch (const InputError& error) {
    return error.diagnostics().front().hint;
  }
  return "";
}

void read_layers(const Reader& root) {
  (void)root.required("layers").count(1);
  root.also_called("layers", {"num_layers", "n_layer"});
}

}  // namespace

TEST_CASE("values of YAML and JSON read alike", "[io][document]") {
  for (const char* const text :
       {"name: a\ncount: 3\nratio: 0.5\non: true\nsize: 64 GB\nlist: [1, 2]\n",
        R"({"name": "a", "count": 3, "ratio": 0.5, "on": true, "size": "64 GB", "list": [1, 2]})",
        "{name: a, count: 3, ratio: 0.5, on: true, size: 64 GB, list: [1, 2]}",
        "\xEF\xBB\xBFname: a\r\ncount: 3\r\nratio: 0.5\r\non: true\r\nsize: 64 GB\r\nlist: [1, 2]\r\n"}) {
    CAPTURE(text);
    const Document document = Document::parse(text, "f");
    const Reader root = document.root();
    CHECK(root.required("name").name() == "a");
    CHECK(root.required("count").count(1) == 3);
    CHECK(root.required("ratio").number() == 0.5);
    CHECK(root.required("on").boolean());
    CHECK(root.required("size").quantity<Bytes>() == Bytes{64'000'000'000LL});
    CHECK(root.required("list").items().size() == 2);
    CHECK(root.required("list").items()[1].integer(0, 9) == 2);
    CHECK(root.optional("absent").count_or(7, 1) == 7);
    CHECK_NOTHROW(document.finish());
  }
}

TEST_CASE("a fault names file, line, column and path", "[io][document]") {
  const auto read = [](const Reader& root) {
    for (const Reader& group : root.required("groups").items()) (void)group.required("nodes").count(1);
  };
  CHECK(faults_of("groups:\n  - nodes: 2\n  - nodes: -1\n", read) ==
        "f:3:12: error: groups[1].nodes: found the number -1, needed a whole number of at least 1");
  CHECK(faults_of("{\"groups\": [{\"nodes\": 2},\n {\"nodes\": -1}]}", read) ==
        "f:2:12: error: groups[1].nodes: found the number -1, needed a whole number of at least 1");
}

TEST_CASE("all faults of a file are shown at once, in the order of the file", "[io][document]") {
  const auto read = [](const Reader& root) {
    (void)root.required("b").count(1);
    (void)root.required("a").quantity<BytesPerSecond>();
    (void)root.required("missing").text();
  };
  CHECK(faults_of("a: 25 Gb\nb: x\nc: 1\n", read) ==
        "f:1:1: error: missing: missing key\n"
        "f:1:4: error: a: unknown unit \"Gb\" in \"25 Gb\"\n"
        "f:2:4: error: b: found \"x\", needed a whole number of at least 1\n"
        "f:3:1: error: c: unknown key");
}

TEST_CASE("an unknown key is answered with the nearest known one", "[io][document]") {
  CHECK(hint_of("layers: 3\nlayrs: 4\n", read_layers) == "did you mean \"layers\"?");
  CHECK(hint_of("layers: 3\nnum_layer: 24\n", read_layers) == "did you mean \"layers\"?");
  CHECK(hint_of("layers: 3\nzzz: 24\n", read_layers) == "known keys: layers");
}

TEST_CASE("duplicate keys are refused, in YAML and in JSON", "[io][document]") {
  CHECK(syntax_fault("a: 1\nb: 2\na: 3\n") == "f:3:1: error: a: duplicate key, first given at line 1, column 1");
  CHECK(syntax_fault("{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2}}") ==
        "f:2:16: error: c: duplicate key, first given at line 2, column 8");
}

TEST_CASE("YAML words and odd numbers stay text", "[io][document]") {
  for (const char* const word : {"yes", "no", "on", "off", "Yes", "TRUE", "0x10", "010", "1_000", ".inf", ".nan", "+5",
                                 "1e", "12:30", "=", "2020-01-01"}) {
    CAPTURE(word);
    const Document document = Document::parse(concat("a: ", word), "f");
    CHECK(document.root().required("a").text() == word);
    CHECK(document.ok());
    (void)document.root().required("a").boolean();
    (void)document.root().required("a").count(0);
    (void)document.root().required("a").number();
    CHECK_FALSE(document.ok());
  }
}

TEST_CASE("types do not mix", "[io][document]") {
  const auto fault = [](const char* value, auto read) {
    return faults_of(concat("a: ", value), [&](const Reader& root) { read(root.required("a")); });
  };
  const auto text = [](const Reader& reader) { (void)reader.text(); };
  const auto count = [](const Reader& reader) { (void)reader.count(1, 9); };
  const auto size = [](const Reader& reader) { (void)reader.quantity<Bytes>(); };
  CHECK(fault("1", text) == "f:1:4: error: a: found the number 1, needed text");
  CHECK(fault("true", text) == "f:1:4: error: a: found true, needed text");
  CHECK(fault("'5'", count) == "f:1:4: error: a: found \"5\", needed a whole number from 1 to 9");
  CHECK(fault("5.0", count) == "f:1:4: error: a: found the number 5.0, needed a whole number from 1 to 9");
  CHECK(fault("[1]", count) == "f:1:4: error: a: found a list, needed a whole number from 1 to 9");
  CHECK(fault("10", count) == "f:1:4: error: a: found the number 10, needed a whole number from 1 to 9");
  CHECK(fault("99999999999999999999", count) ==
        "f:1:4: error: a: found the number 99999999999999999999, needed a whole number from 1 to 9");
  CHECK(fault("64", size) == "f:1:4: error: a: the number 64 has no unit");
  CHECK(fault("0 GB", size) == "f:1:4: error: a: \"0 GB\" is zero");
  CHECK(fault("{}", size) == "f:1:4: error: a: found a map, needed a size such as \"64 GB\"");
}

TEST_CASE("a quote that the end of the file leaves open is a fault, and no other", "[io][document]") {
  const std::string fault = "f:2:4: error: a quote that is not closed";
  for (const std::string end : {"", "\n", "\n\n"}) {
    CAPTURE(end);
    if (!end.empty()) {
      CHECK(syntax_fault("a: 1\nb: \"x" + end) == fault);
      CHECK(syntax_fault("a: 1\nb: 'it''s" + end) == fault);
      CHECK(syntax_fault("a: 1\nb: \"x\\\"" + end) == fault);
    }
    CHECK(syntax_fault("a: 1\nb: \"x\\\"\"" + end).empty());
    CHECK(syntax_fault("a: 1\nb: 'it''s'" + end).empty());
    CHECK(syntax_fault("a: 'x\n  y'" + end).empty());
    CHECK(syntax_fault("a: it's \"so\" # it's" + end).empty());
    CHECK(syntax_fault("a: |\n  \"x" + end).empty());
    CHECK(syntax_fault("'a': \"\"" + end).empty());
  }
}

TEST_CASE("empty files and broken syntax are positioned faults", "[io][document]") {
  CHECK(syntax_fault("") == "f:1:1: error: the file is empty");
  CHECK(syntax_fault("# only\n# comments\n") == "f:1:1: error: the file is empty");
  CHECK(syntax_fault("a:\n\tb: 1\n") == "f:2:1: error: a tab in the indentation");
  CHECK(syntax_fault("- a\n") == "f:1:1: error: found a list, needed a map of keys and values");
  CHECK(syntax_fault("just text") == "f:1:1: error: found \"just text\", needed a map of keys and values");
  CHECK(syntax_fault("a: 1\n---\nb: 1\n") == "f:2:1: error: a second YAML document");
  CHECK(syntax_fault("a: !!python/object x\n") ==
        "f:1:4: error: the tag \"tag:yaml.org,2002:python/object\" is not supported");
  CHECK(syntax_fault("{\"a\": 1,\n \"b\": ]}").rfind("f:2:7: error: syntax error", 0) == 0);
  CHECK(syntax_fault(std::string("a: \0b", 5)) == "f:1:4: error: control character 0x00");
  CHECK(syntax_fault("a: \xFF\n") == "f:1:4: error: byte 0xff is not UTF-8");
  CHECK(syntax_fault("\xFF\xFE a") == "f:1:1: error: byte 0xff is not UTF-8");
}

TEST_CASE("depth and aliases cannot exhaust memory", "[io][document]") {
  const std::string opening(100'000, '[');
  CHECK_THROWS_AS(Document::parse(opening, "f"), InputError);
  CHECK_THROWS_AS(Document::parse("a: " + opening, "f"), InputError);
  std::string maps;
  for (int i = 0; i < 50'000; ++i) maps += "{\"a\":";
  CHECK_THROWS_AS(Document::parse(maps, "f"), InputError);
  // Each line holds ten of the line before: 10^12 values.
  std::string bomb = "a0: &a0 [1]\n";
  for (int i = 1; i <= 12; ++i) {
    bomb += concat("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) bomb += concat("*a", i - 1, k < 9 ? ", " : "]\n");
  }
  CHECK_THROWS_AS(Document::parse(bomb, "f"), InputError);
  CHECK(syntax_fault("a: &x [1, *x]\n") ==
        "f:1:11: error: an alias inside the value that it stands for is not supported");
}

TEST_CASE("an alias is a value of its own", "[io][document]") {
  const Document document = Document::parse("a: &link {bandwidth: 1 GB/s}\nb: *link\n", "f");
  for (const char* const key : {"a", "b"}) {
    CHECK(document.root().required(key).required("bandwidth").quantity<BytesPerSecond>().value() == 1e9);
  }
  CHECK_NOTHROW(document.finish());
}

TEST_CASE("text of a file cannot break a message", "[io][document]") {
  const std::string message =
      faults_of("{\"a\\u001b[31m\\n\": \"\\u0007\"}", [](const Reader& root) { (void)root.optional("b").count(1); });
  CHECK(message == "f:1:2: error: a?[31m?: unknown key");
}

TEST_CASE("a thousand faults are counted, not shown", "[io][document]") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += concat("key", i, ": 1\n");
  try {
    const Document document = Document::parse(text, "f");
    (void)document.root().optional("other").count(1);
    document.finish();
    FAIL("no fault");
  } catch (const InputError& error) {
    CHECK(error.diagnostics().size() == 21);
    CHECK(error.diagnostics().back().message == "and 980 more faults");
  }
}

TEST_CASE("numbers in JSON: infinite, huge and not a number", "[io][document]") {
  const auto number = [](const Reader& root) {
    for (const Reader& item : root.required("a").items()) (void)item.number(0.0);
  };
  CHECK(faults_of(R"({"a": [1, 1e999]})", number) == "f:1:11: error: a[1]: found \"1e999\", needed a finite number");
  CHECK(faults_of(R"({"a": [1, NaN]})", number) == "f:1:11: error: a[1]: found \"NaN\", needed a finite number");
  CHECK(faults_of(R"({"a": [1, -Infinity]})", number) ==
        "f:1:11: error: a[1]: found \"-Infinity\", needed a finite number");
  CHECK(faults_of(R"({"a": [1, -1]})", number) ==
        "f:1:11: error: a[1]: found the number -1, needed a number of at least 0");
  CHECK(faults_of(R"({"a": [1, 18446744073709551615]})", number).empty());
}
