#include "io/framework_schedules.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/detail/text_lines.hpp"

namespace hpplan {

using detail::decimal_number;
using detail::quoted_text;
using detail::TextFaults;
using detail::TextLine;
using detail::TextWord;
using detail::whole_number;

namespace {

[[noreturn]] void refuse(const std::string& file, std::size_t column, const std::string& message,
                         const std::string& hint) {
  throw InputError(Diagnostic{file, 1, static_cast<int>(column) + 1, "", message, hint});
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// `<stage><action><micro-batch>` and nothing else.
std::optional<TorchOp> torch_op(const std::string& cell) {
  std::size_t letter = 0;
  while (letter < cell.size() && is_digit(cell[letter])) ++letter;
  if (letter == 0 || letter == cell.size() || std::string("FBIW").find(cell[letter]) == std::string::npos) {
    return std::nullopt;
  }
  const std::optional<int> stage = whole_number(cell.substr(0, letter));
  const std::optional<int> micro_batch = whole_number(cell.substr(letter + 1));
  if (!stage || !micro_batch) return std::nullopt;
  return TorchOp{*stage, cell[letter], *micro_batch};
}

/// Which ops of one (stage, micro-batch) have run.
struct Done {
  bool forward = false;
  bool input = false;    // B or I
  bool weights = false;  // B or W
};

/// Runs the rows against each other; every op must find its inputs at some time.
class TorchRun {
 public:
  TorchRun(const TorchShape& shape) : shape_(shape), done_(static_cast<std::size_t>(shape.stages)) {
    for (auto& stage : done_) stage.resize(static_cast<std::size_t>(shape.micro_batches));
  }

  [[nodiscard]] Done& at(int stage, int micro_batch) {
    return done_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(micro_batch)];
  }

  [[nodiscard]] bool ready(const TorchOp& op) {
    const Done& here = at(op.stage, op.micro_batch);
    switch (op.action) {
      case 'F': return op.stage == 0 || at(op.stage - 1, op.micro_batch).forward;
      case 'W': return here.input;
      default: return here.forward && (op.stage + 1 == shape_.stages || at(op.stage + 1, op.micro_batch).input);
    }
  }

  void run(const TorchOp& op) {
    Done& here = at(op.stage, op.micro_batch);
    here.forward = here.forward || op.action == 'F';
    here.input = here.input || op.action == 'B' || op.action == 'I';
    here.weights = here.weights || op.action == 'B' || op.action == 'W';
  }

  /// Index of a row that cannot go on, or -1.
  [[nodiscard]] int stuck_row(const std::vector<std::vector<TorchOp>>& rows) {
    std::vector<std::size_t> next(rows.size(), 0);
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t row = 0; row < rows.size(); ++row) {
        while (next[row] < rows[row].size() && ready(rows[row][next[row]])) {
          run(rows[row][next[row]++]);
          moved = true;
        }
      }
    }
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (next[row] < rows[row].size()) return static_cast<int>(row);
    }
    return -1;
  }

 private:
  TorchShape shape_;
  std::vector<std::vector<Done>> done_;
};

/// Reads the cells and checks each against the shape and against the ops before it on its row.
class TorchReader {
 public:
  TorchReader(const std::string& file, const TorchShape& shape) : shape_(shape), faults_(file) {}

  void read_row(const TextLine& line) {
    std::vector<TorchOp>& row = rows_.emplace_back();
    for (const TextWord& cell : detail::cells_of(line.text, ',')) {
      if (!cell.text.empty()) read_cell(line, cell, row);
    }
    if (row.empty()) faults_.add(line.number, 1, "", "a rank without any op", "give every rank at least one stage");
  }

  [[nodiscard]] std::vector<std::vector<TorchOp>> finish() {
    if (static_cast<int>(rows_.size()) != shape_.ranks) {
      faults_.add(0, 0, "", concat(rows_.size(), " rows for ", shape_.ranks, " ranks"), "write one row per rank");
    }
    faults_.finish();
    check_counts();
    faults_.finish();
    const int row = TorchRun(shape_).stuck_row(rows_);
    if (row >= 0) {
      faults_.add(row + 1, 1, "", "this rank waits for an op that waits for it",
                  "order the ops so that none waits for a later one");
    }
    faults_.finish();
    return std::move(rows_);
  }

 private:
  void read_cell(const TextLine& line, const TextWord& cell, std::vector<TorchOp>& row) {
    const auto fault = [&](const std::string& message) {
      faults_.add(line.number, cell.column, "", concat(message, ": ", quoted_text(cell.text)),
                  "a cell is a stage, F, B, I or W, and a micro-batch, such as 0F3");
    };
    const std::optional<TorchOp> op = torch_op(cell.text);
    if (!op) return fault("unknown op");
    if (op->stage >= shape_.stages) return fault(concat("stage out of 0 to ", shape_.stages - 1));
    if (op->micro_batch >= shape_.micro_batches)
      return fault(concat("micro-batch out of 0 to ", shape_.micro_batches - 1));
    if (std::find(row.begin(), row.end(), *op) != row.end()) return fault("op twice");
    const auto before = [&](char action) {
      return std::find(row.begin(), row.end(), TorchOp{op->stage, action, op->micro_batch}) != row.end();
    };
    if ((op->action == 'B' || op->action == 'I') && !before('F')) return fault("backward before its forward");
    if (op->action == 'W' && !before('I')) return fault("weight gradient before its input gradient");
    if ((op->action == 'B' && before('I')) || (op->action == 'I' && before('B'))) return fault("backward twice");
    row.push_back(*op);
  }

  void check_counts() {
    for (int stage = 0; stage < shape_.stages; ++stage) {
      int holders = 0;
      int forwards = 0;
      int inputs = 0;
      int weights = 0;
      for (const std::vector<TorchOp>& row : rows_) {
        bool holds = false;
        for (const TorchOp& op : row) {
          if (op.stage != stage) continue;
          holds = true;
          forwards += op.action == 'F' ? 1 : 0;
          inputs += op.action == 'B' || op.action == 'I' ? 1 : 0;
          weights += op.action == 'B' || op.action == 'W' ? 1 : 0;
        }
        holders += holds ? 1 : 0;
      }
      const std::string field = concat("stage ", stage);
      if (holders != 1)
        faults_.add(0, 0, field, concat("on ", holders, " ranks"), "put every stage on exactly one rank");
      const int wanted = shape_.micro_batches;
      if (holders == 1 && (forwards != wanted || inputs != wanted || weights != wanted)) {
        faults_.add(0, 0, field,
                    concat(forwards, " forwards, ", inputs, " input and ", weights, " weight gradients for ", wanted,
                           " micro-batches"),
                    "run every micro-batch once");
      }
    }
  }

  TorchShape shape_;
  TextFaults faults_;
  std::vector<std::vector<TorchOp>> rows_;
};

constexpr std::size_t kMaxTokens = 1'000'000;

/// `(..)*n` and `x*n` written out.
std::string expand_layout(const std::string& text, const std::string& source) {
  std::string expanded;
  std::string group;
  bool in_group = false;
  std::size_t open = 0;
  const auto repeat_count = [&](std::size_t& at, std::size_t fallback) -> std::size_t {
    if (at + 1 >= text.size() || text[at + 1] != '*') return fallback;
    std::size_t end = at + 2;
    while (end < text.size() && is_digit(text[end])) ++end;
    const std::optional<int> count = whole_number(text.substr(at + 2, end - at - 2));
    if (!count) refuse(source, at + 1, "a number is missing after \"*\"", "write t*4 or (tt|)*2");
    at = end - 1;
    return static_cast<std::size_t>(*count);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',') continue;
    if (c == '(' && !in_group) {
      in_group = true;
      open = i;
      group.clear();
    } else if (c == ')' && in_group) {
      in_group = false;
      const std::size_t count = repeat_count(i, 1);
      if (count * group.size() > kMaxTokens) refuse(source, open, "a layout of more than a million tokens", "");
      for (std::size_t k = 0; k < count; ++k) expanded += group;
    } else if (std::string("EtmL|").find(c) != std::string::npos) {
      const std::size_t at = i;
      const std::size_t count = c == '|' ? 1 : repeat_count(i, 1);
      if (count + group.size() > kMaxTokens) refuse(source, at, "a layout of more than a million tokens", "");
      (in_group ? group : expanded).append(count, c);
    } else {
      refuse(source, i, concat("unexpected ", quoted_text(std::string(1, c)), " in a layout"),
             "use E, t, m and L, bars between stages, t*4 and (tt|)*2; no spaces, no nested brackets");
    }
    if (expanded.size() > kMaxTokens) refuse(source, i, "a layout of more than a million tokens", "");
  }
  if (in_group) refuse(source, open, "this bracket is never closed", "write (tt|)*2");
  return expanded;
}

std::vector<LayoutEntry> entries_of(const std::string& expanded) {
  std::vector<LayoutEntry> entries(1);
  for (const char c : expanded) {
    if (c == '|') entries.emplace_back();
    if (c == 'E') entries.back().embedding = true;
    if (c == 't') ++entries.back().layers;
    if (c == 'm') ++entries.back().predictions;
    if (c == 'L') entries.back().loss = true;
  }
  return entries;
}

/// All predictions in one stage, after every t, in the last chunk of its rank.
void check_predictions(const std::vector<LayoutEntry>& entries, const std::string& expanded, const std::string& source,
                       const LayoutShape& shape) {
  int holders = 0;
  std::size_t holder = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].predictions == 0) continue;
    ++holders;
    holder = i;
  }
  if (holders > 1) refuse(source, 0, "prediction layers (m) on several stages", "put all of them on one stage");
  if (holders == 0) return;
  if (expanded.find('t', expanded.find('m')) != std::string::npos) {
    refuse(source, 0, "a prediction layer (m) before a decoder layer (t)", "put m after the last t");
  }
  if (holder + static_cast<std::size_t>(shape.stages) < entries.size()) {
    refuse(source, 0, "prediction layers (m) outside the last chunk of their rank", "move m to a later stage");
  }
}

/// Walks a text such as `1, 2.5, (A, B), [4, 4], [(1, 2)], 8, [0, 3]`: numbers, words and nested lists.
class RowReader {
 public:
  RowReader(const std::string& text, std::string file) : text_(text), file_(std::move(file)) {}

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  [[nodiscard]] bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, const char* where) {
    if (!take(c)) refuse(file_, at_, concat("\"", c, "\" is missing ", where), kForm);
  }
  [[nodiscard]] std::string word(const char* what) {
    skip_spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() && std::string(",()[] \t").find(text_[at_]) == std::string::npos) ++at_;
    if (at_ == start) refuse(file_, at_, concat(what, " is missing"), kForm);
    return text_.substr(start, at_ - start);
  }
  [[nodiscard]] int count(const char* what) {
    skip_spaces();
    const std::size_t start = at_;
    const std::optional<int> value = whole_number(word(what));
    if (!value) refuse(file_, start, concat(what, " is no whole number"), kForm);
    return *value;
  }
  [[nodiscard]] double number(const char* what) {
    skip_spaces();
    const std::size_t start = at_;
    const std::optional<double> value = decimal_number(word(what));
    if (!value) refuse(file_, start, concat(what, " is no number"), kForm);
    return *value;
  }
  template <typename Element>
  std::vector<Element> list(char open, char close, const char* what, const std::function<Element()>& element) {
    std::vector<Element> elements;
    expect(open, what);
    while (!take(close)) {
      if (!elements.empty()) expect(',', what);
      elements.push_back(element());
    }
    return elements;
  }
  void end() {
    skip_spaces();
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
    if (at_ < text_.size()) refuse(file_, at_, "text after the row", "give one row alone");
  }

 private:
  static constexpr const char* kForm =
      "rank, cost, (node sequence), [device groups], [(dp, tp) per stage], batches, [layer boundaries]";
  const std::string& text_;
  std::string file_;
  std::size_t at_ = 0;
};

void check_metis(const MetisRow& row, const std::string& file) {
  const std::size_t stages = row.device_groups.size();
  if (stages == 0 || row.strategies.size() != stages || row.layer_partition.size() != stages + 1) {
    refuse(file, 0,
           concat(stages, " device groups, ", row.strategies.size(), " strategies and ", row.layer_partition.size(),
                  " layer boundaries"),
           "give as many strategies as groups, and one boundary more");
  }
  for (std::size_t s = 0; s < stages; ++s) {
    if (row.strategies[s].size() != 2 || row.strategies[s][0] * row.strategies[s][1] != row.device_groups[s]) {
      refuse(file, 0, concat("the strategy of stage ", s, " does not use its ", row.device_groups[s], " devices"),
             "dp times tp is the number of devices");
    }
    if (row.layer_partition[s + 1] <= row.layer_partition[s]) {
      refuse(file, 0, concat("stage ", s, " holds no layer"), "layer boundaries rise");
    }
  }
}

}  // namespace

std::vector<std::vector<TorchOp>> read_torch_schedule(const std::string& text, const std::string& file,
                                                      const TorchShape& shape) {
  detail::check_is_text(text, file);
  TorchReader reader(file, shape);
  for (const TextLine& line : detail::lines_of(text)) reader.read_row(line);
  return reader.finish();
}

std::vector<LayoutEntry> read_megatron_layout(const std::string& text, const std::string& source,
                                              const LayoutShape& shape) {
  const std::string expanded = expand_layout(text, source);
  const std::vector<LayoutEntry> entries = entries_of(expanded);
  const auto count = [&](char c) { return static_cast<int>(std::count(expanded.begin(), expanded.end(), c)); };
  if (entries.size() % static_cast<std::size_t>(shape.stages) != 0) {
    refuse(source, 0, concat(entries.size(), " stages do not divide over ", shape.stages, " pipeline ranks"),
           "write a multiple of the pipeline size");
  }
  const std::string tokens = [&] {
    std::string without_bars;
    std::copy_if(expanded.begin(), expanded.end(), std::back_inserter(without_bars), [](char c) { return c != '|'; });
    return without_bars;
  }();
  if (count('E') != 1 || tokens.front() != 'E')
    refuse(source, 0, "E is not the first token, exactly once", "begin with E");
  if (count('L') != 1 || tokens.back() != 'L') refuse(source, 0, "L is not the last token, exactly once", "end with L");
  if (count('t') != shape.layers) {
    refuse(source, 0, concat(count('t'), " decoder layers (t), but the model has ", shape.layers), "");
  }
  if (count('m') != shape.predictions) {
    refuse(source, 0, concat(count('m'), " prediction layers (m), but the model has ", shape.predictions), "");
  }
  check_predictions(entries, expanded, source, shape);
  return entries;
}

std::vector<std::vector<int>> read_mindspeed_split(const std::string& text, const std::string& source,
                                                   const LayoutShape& shape) {
  RowReader reader(text, source);
  const auto counts = [&] {
    std::vector<int> chunk_layers;
    reader.expect('[', "before the layers of a stage");
    while (!reader.take(']')) {
      if (!chunk_layers.empty()) reader.expect(',', "between layers of a stage");
      const std::string word = reader.word("a number of layers");
      const std::size_t star = word.find('*');
      const std::optional<int> value = whole_number(word.substr(0, star));
      const std::optional<int> times = star == std::string::npos ? 1 : whole_number(word.substr(star + 1));
      if (!value || !times || *times > 100'000)
        refuse(source, 0, concat(quoted_text(word), " is no number of layers"), "");
      chunk_layers.insert(chunk_layers.end(), static_cast<std::size_t>(*times), *value);
    }
    return chunk_layers;
  };
  std::vector<std::vector<int>> split = reader.list<std::vector<int>>('[', ']', "around the stages", counts);
  reader.end();
  std::int64_t sum = 0;
  for (const std::vector<int>& stage : split) {
    for (const int layers : stage) sum += layers;
    if (stage.size() != split.front().size()) refuse(source, 0, "stages with different numbers of chunks", "");
  }
  if (static_cast<int>(split.size()) != shape.stages || split.front().empty()) {
    refuse(source, 0, concat(split.size(), " stages for ", shape.stages, " pipeline ranks"), "write one list per rank");
  }
  if (sum != shape.layers)
    refuse(source, 0, concat(sum, " layers in all stages, but the model has ", shape.layers), "");
  return split;
}

MetisRow read_metis_row(const std::string& text, const std::string& file) {
  RowReader reader(text, file);
  MetisRow row;
  row.rank = reader.count("the rank");
  reader.expect(',', "after the rank");
  row.cost_ms = reader.number("the cost");
  reader.expect(',', "after the cost");
  row.node_sequence =
      reader.list<std::string>('(', ')', "around the node sequence", [&] { return reader.word("a node type"); });
  reader.expect(',', "after the node sequence");
  row.device_groups =
      reader.list<int>('[', ']', "around the device groups", [&] { return reader.count("a device count"); });
  reader.expect(',', "after the device groups");
  const auto strategy = [&] {
    return reader.list<int>('(', ')', "around a strategy", [&] { return reader.count("a degree"); });
  };
  row.strategies = reader.list<std::vector<int>>('[', ']', "around the strategies", strategy);
  reader.expect(',', "after the strategies");
  row.batches = reader.count("the number of batches");
  reader.expect(',', "after the number of batches");
  row.layer_partition =
      reader.list<int>('[', ']', "around the layers", [&] { return reader.count("a layer boundary"); });
  reader.end();
  check_metis(row, file);
  return row;
}

}  // namespace hpplan
