#include "io/import_hosts.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/detail/text_lines.hpp"

namespace hpplan {

using detail::quoted_text;
using detail::TextFaults;
using detail::TextLine;
using detail::TextWord;
using detail::whole_number;

namespace {

constexpr std::size_t kMaxHosts = 100'000;
constexpr int kMaxSlots = 1024;
constexpr const char* kLineForm = "write one host per line: \"node1 slots=8\", with \" type=LABEL\" where types differ";

/// What went wrong inside a node list, and at which byte.
struct ListFault {
  std::size_t at = 0;
  std::string message;
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

/// Reads node lists; every step returns false after setting `fault_`.
class NodeListReader {
 public:
  explicit NodeListReader(const std::string& text) : text_(text) {}

  [[nodiscard]] std::optional<std::vector<std::string>> read() {
    std::vector<std::string> names;
    while (true) {
      std::vector<std::string> product{""};
      if (!read_name(product)) return std::nullopt;
      names.insert(names.end(), product.begin(), product.end());
      if (names.size() > kMaxHosts) return fail(0, concat("more than ", kMaxHosts, " nodes")), std::nullopt;
      if (at_ == text_.size()) return names;
      if (text_[at_] != ',') return fail(at_, concat("unexpected ", quoted_text(text_.substr(at_, 1)))), std::nullopt;
      ++at_;
    }
  }

  [[nodiscard]] const ListFault& fault() const { return fault_; }

 private:
  bool fail(std::size_t at, std::string message) {
    fault_ = {at, std::move(message)};
    return false;
  }

  static bool extend(std::vector<std::string>& product, const std::vector<std::string>& endings) {
    if (product.size() * endings.size() > kMaxHosts) return false;
    std::vector<std::string> longer;
    for (const std::string& name : product) {
      for (const std::string& ending : endings) longer.push_back(name + ending);
    }
    product = std::move(longer);
    return true;
  }

  bool read_name(std::vector<std::string>& product) {
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == '[') {
        std::vector<std::string> numbers;
        if (!read_brackets(numbers)) return false;
        if (!extend(product, numbers)) return fail(start, concat("more than ", kMaxHosts, " nodes"));
      } else if (is_name_character(text_[at_])) {
        for (std::string& name : product) name += text_[at_];
        ++at_;
      } else {
        return fail(at_, concat("unexpected ", quoted_text(text_.substr(at_, 1)), " in a node name"));
      }
    }
    return at_ > start || fail(start, "a node name is missing");
  }

  /// `[01-04,7]`, with the cursor on the opening bracket.
  bool read_brackets(std::vector<std::string>& numbers) {
    const std::size_t open = at_++;
    while (true) {
      if (!read_range(numbers)) return false;
      if (at_ >= text_.size()) return fail(open, "this bracket is never closed");
      const char c = text_[at_++];
      if (c == ']') return true;
      if (c != ',') return fail(at_ - 1, concat("unexpected ", quoted_text(std::string(1, c)), " inside brackets"));
    }
  }

  [[nodiscard]] std::string read_digits() {
    const std::size_t start = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return text_.substr(start, at_ - start);
  }

  bool read_range(std::vector<std::string>& numbers) {
    const std::size_t start = at_;
    const std::string first = read_digits();
    std::string last = first;
    if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
      last = read_digits();
    }
    const std::optional<int> from = whole_number(first);
    const std::optional<int> to = whole_number(last);
    if (!from || !to) return fail(start, "a number or a range such as 01-04 is missing");
    if (*to < *from) return fail(start, concat("range ", first, "-", last, " runs backwards"));
    if (static_cast<std::size_t>(*to - *from) >= kMaxHosts)
      return fail(start, concat("more than ", kMaxHosts, " nodes"));
    for (int number = *from; number <= *to; ++number) {
      std::string digits = concat(number);
      // The padding of the first number holds for the whole range.
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
    return true;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  ListFault fault_;
};

/// Hosts of one hostfile, with everything needed to say what is wrong with it.
class HostfileReader {
 public:
  explicit HostfileReader(const std::string& file) : faults_(file) {}

  void read_line(const TextLine& line) {
    const std::string content = line.text.substr(0, line.text.find('#'));
    const std::vector<TextWord> words = detail::words_of(content);
    if (words.empty()) return;
    Host host;
    host.line = line.number;
    bool complete = true;
    for (std::size_t i = 1; i < words.size() && complete; ++i) complete = read_field(line, words[i], host);
    if (complete) read_names(line, words.front(), host);
  }

  [[nodiscard]] std::vector<Host> finish() {
    if (hosts_.empty() && faults_.empty()) faults_.add(0, 0, "", "no host in this file", kLineForm);
    const auto typed = [](const Host& host) { return !host.type.empty(); };
    const auto first_typed = std::find_if(hosts_.begin(), hosts_.end(), typed);
    const auto untyped = std::find_if_not(hosts_.begin(), hosts_.end(), typed);
    if (first_typed != hosts_.end() && untyped != hosts_.end()) {
      faults_.add(untyped->line, 1, "type",
                  concat("host ", untyped->name, " has no type, but ", first_typed->name, " has"),
                  "give every host a type, or none");
    }
    faults_.finish();
    return hosts_;
  }

 private:
  void fault(const TextLine& line, int column, const std::string& message) {
    faults_.add(line.number, column, "", concat(message, " in ", quoted_text(line.text)), kLineForm);
  }

  bool read_field(const TextLine& line, const TextWord& word, Host& host) {
    const std::size_t equals = word.text.find('=');
    const std::string key = equals == std::string::npos ? "slots" : word.text.substr(0, equals);
    const std::string value = equals == std::string::npos ? word.text : word.text.substr(equals + 1);
    if (key == "type" && !value.empty()) {
      host.type = value;
      return true;
    }
    const bool counts = key == "slots" || key == "max_slots" || key == "max-slots";
    const std::optional<int> count = whole_number(value);
    if (!counts || !count || *count < 1 || *count > kMaxSlots) {
      fault(line, word.column,
            counts ? concat(quoted_text(value), " is not a number of slots from 1 to ", kMaxSlots)
                   : concat("unknown word ", quoted_text(word.text)));
      return false;
    }
    // max_slots only limits how far a job may overload a host.
    if (key == "slots") {
      if (host.devices != 0) return fault(line, word.column, "slots stated twice"), false;
      host.devices = *count;
    }
    return true;
  }

  /// `host`, `host:8`, `a:8,b:8` or `node[01-04]`.
  void read_names(const TextLine& line, const TextWord& word, const Host& fields) {
    std::size_t start = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= word.text.size(); ++i) {
      if (i < word.text.size()) {
        depth += word.text[i] == '[' ? 1 : word.text[i] == ']' ? -1 : 0;
        if (word.text[i] != ',' || depth > 0) continue;
      }
      read_name(line, {word.text.substr(start, i - start), word.column + static_cast<int>(start)}, fields);
      start = i + 1;
    }
  }

  void read_name(const TextLine& line, const TextWord& word, Host host) {
    const std::size_t colon = word.text.find(':');
    if (colon != std::string::npos) {
      const std::optional<int> count = whole_number(word.text.substr(colon + 1));
      if (!count || *count < 1 || *count > kMaxSlots || host.devices != 0) {
        return fault(line, word.column + static_cast<int>(colon),
                     "the slots after \":\" are no number, or stated twice");
      }
      host.devices = *count;
    }
    const std::string list = word.text.substr(0, colon);
    NodeListReader reader(list);
    const std::optional<std::vector<std::string>> names = reader.read();
    if (!names) return fault(line, word.column + static_cast<int>(reader.fault().at), reader.fault().message);
    for (const std::string& name : *names) {
      host.name = name;
      add(line, word.column, host);
    }
  }

  void add(const TextLine& line, int column, const Host& host) {
    const auto [known, is_new] = line_of_name_.emplace(host.name, line.number);
    if (!is_new) {
      faults_.add(line.number, column, "", concat("host ", host.name, " was named before, in line ", known->second),
                  "name every host once");
      return;
    }
    if (hosts_.size() < kMaxHosts) hosts_.push_back(host);
  }

  TextFaults faults_;
  std::vector<Host> hosts_;
  std::map<std::string, int> line_of_name_;
};

}  // namespace

std::vector<Host> read_hostfile(const std::string& text, const std::string& file) {
  detail::check_is_text(text, file);
  HostfileReader reader(file);
  for (const TextLine& line : detail::lines_of(text)) reader.read_line(line);
  return reader.finish();
}

std::vector<std::string> expand_node_list(const std::string& text, const std::string& source) {
  NodeListReader reader(text);
  std::optional<std::vector<std::string>> names = reader.read();
  if (names) return *std::move(names);
  throw InputError(Diagnostic{source, 1, static_cast<int>(reader.fault().at) + 1, "",
                              concat(reader.fault().message, " in ", quoted_text(text)),
                              "write a list such as node[01-04,07],login1"});
}

std::vector<int> expand_task_counts(const std::string& text, const std::string& source) {
  std::vector<int> counts;
  for (const TextWord& cell : detail::cells_of(text, ',')) {
    const std::size_t open = cell.text.find("(x");
    const std::string repeat = open == std::string::npos ? "1)" : cell.text.substr(open + 2);
    const std::optional<int> count = whole_number(std::string_view(cell.text).substr(0, open));
    const bool closed = !repeat.empty() && repeat.back() == ')';
    const std::optional<int> times =
        closed ? whole_number(std::string_view(repeat).substr(0, repeat.size() - 1)) : std::nullopt;
    if (!count || !times || *count < 1 || *times < 1 || *count > kMaxSlots ||
        counts.size() + static_cast<std::size_t>(*times) > kMaxHosts) {
      throw InputError(Diagnostic{source, 1, cell.column, "", concat("unknown count ", quoted_text(cell.text)),
                                  "write counts such as 8(x4),4"});
    }
    counts.insert(counts.end(), static_cast<std::size_t>(*times), *count);
  }
  return counts;
}

std::vector<Host> read_slurm_hosts(const std::string& node_list, const std::string& tasks_per_node) {
  const std::vector<std::string> names = expand_node_list(node_list, "--slurm");
  std::vector<int> counts(names.size(), 0);
  if (!tasks_per_node.empty()) counts = expand_task_counts(tasks_per_node, "--slurm-tasks");
  if (counts.size() != names.size()) {
    throw InputError(Diagnostic{"--slurm-tasks", 1, 1, "",
                                concat(counts.size(), " counts for ", names.size(), " nodes"),
                                "take both values from the same job"});
  }
  std::vector<Host> hosts;
  std::map<std::string, int> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!seen.emplace(names[i], 1).second) {
      throw InputError(
          Diagnostic{"--slurm", 1, 1, "", concat("node ", names[i], " is named twice"), "name every node once"});
    }
    hosts.push_back({names[i], counts[i], "", 1});
  }
  return hosts;
}

}  // namespace hpplan
