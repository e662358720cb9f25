#include "io/quantity.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "base/text.hpp"

namespace hpplan {

namespace {

struct Unit {
  const char* name;
  double factor;
  const char* meaning;
  double divisor = 1.0;  // 5 / 1e6 is the double 5e-6; 5 * 1e-6 is another one
};

/// What is known about one kind of quantity.
struct UnitTable {
  std::span<const Unit> units;
  const char* kind;
  const char* example;
};

constexpr double kKibi = 1024.0;
constexpr double kMebi = kKibi * 1024.0;
constexpr double kGibi = kMebi * 1024.0;
constexpr double kTebi = kGibi * 1024.0;

constexpr Unit kByteUnits[] = {
    {"B", 1.0, "bytes"},          {"kB", 1e3, "10^3 bytes"},    {"MB", 1e6, "10^6 bytes"},
    {"GB", 1e9, "10^9 bytes"},    {"TB", 1e12, "10^12 bytes"},  {"KiB", kKibi, "2^10 bytes"},
    {"MiB", kMebi, "2^20 bytes"}, {"GiB", kGibi, "2^30 bytes"}, {"TiB", kTebi, "2^40 bytes"},
};

constexpr Unit kSecondUnits[] = {
    {"s", 1.0, "seconds"},
    {"ms", 1.0, "10^-3 seconds", 1e3},
    {"us", 1.0, "10^-6 seconds", 1e6},
    {"ns", 1.0, "10^-9 seconds", 1e9},
};

constexpr Unit kFlopUnits[] = {
    {"FLOP", 1.0, "floating-point operations"}, {"MFLOP", 1e6, "10^6 operations"},   {"GFLOP", 1e9, "10^9 operations"},
    {"TFLOP", 1e12, "10^12 operations"},        {"PFLOP", 1e15, "10^15 operations"},
};

constexpr Unit kFlopRateUnits[] = {
    {"FLOPS", 1.0, "floating-point operations per second"},
    {"GFLOPS", 1e9, "10^9 operations per second"},
    {"TFLOPS", 1e12, "10^12 operations per second"},
    {"PFLOPS", 1e15, "10^15 operations per second"},
};

constexpr Unit kByteRateUnits[] = {
    {"B/s", 1.0, "bytes per second"},
    {"MB/s", 1e6, "10^6 bytes per second"},
    {"GB/s", 1e9, "10^9 bytes per second"},
    {"TB/s", 1e12, "10^12 bytes per second"},
    {"MBps", 1e6, "10^6 bytes per second"},
    {"GBps", 1e9, "10^9 bytes per second"},
    {"TBps", 1e12, "10^12 bytes per second"},
    {"MiB/s", kMebi, "2^20 bytes per second"},
    {"GiB/s", kGibi, "2^30 bytes per second"},
    {"Mbps", 1e6 / 8.0, "10^6 bits per second"},
    {"Gbps", 1e9 / 8.0, "10^9 bits per second"},
    {"Tbps", 1e12 / 8.0, "10^12 bits per second"},
    {"Mb/s", 1e6 / 8.0, "10^6 bits per second"},
    {"Gb/s", 1e9 / 8.0, "10^9 bits per second"},
    {"Tb/s", 1e12 / 8.0, "10^12 bits per second"},
};

template <typename Quantity>
UnitTable unit_table();
template <>
UnitTable unit_table<Bytes>() {
  return {kByteUnits, "a size", "64 GB"};
}
template <>
UnitTable unit_table<Seconds>() {
  return {kSecondUnits, "a time", "5 us"};
}
template <>
UnitTable unit_table<Flop>() {
  return {kFlopUnits, "a number of operations", "3 TFLOP"};
}
template <>
UnitTable unit_table<FlopPerSecond>() {
  return {kFlopRateUnits, "a compute rate", "376 TFLOPS"};
}
template <>
UnitTable unit_table<BytesPerSecond>() {
  return {kByteRateUnits, "a data rate", "200 Gbps"};
}

std::string unit_names(const UnitTable& table) {
  std::vector<std::string> names;
  for (const Unit& unit : table.units) names.emplace_back(unit.name);
  return join(names, ", ");
}

std::string lower_case(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

/// Units that a reader of `found` may have meant: the same letters in another case, or these letters and a rate.
std::vector<const Unit*> meant_units(std::string_view found, const UnitTable& table) {
  std::string wanted = lower_case(found);
  for (const char* const micro : {"\u00b5", "\u03bc"}) {  // the micro sign, and the Greek letter
    if (wanted.rfind(micro, 0) == 0) wanted = concat("u", wanted.substr(std::string_view(micro).size()));
  }
  std::vector<const Unit*> meant;
  for (const Unit& unit : table.units) {
    const std::string name = lower_case(unit.name);
    if (name == wanted || name == wanted + "ps" || name == wanted + "/s" || name == wanted + "s" ||
        name + "s" == wanted || name + "/s" == wanted || name + "ps" == wanted) {
      meant.push_back(&unit);
    }
  }
  return meant;
}

QuantityFault unknown_unit(std::string_view unit, std::string_view text, const UnitTable& table) {
  std::vector<std::string> choices;
  for (const Unit* meant : meant_units(unit, table)) choices.push_back(concat(meant->name, " (", meant->meaning, ")"));
  return {concat("unknown unit \"", unit, "\" in \"", text, "\""),
          choices.empty() ? concat("known units: ", unit_names(table)) : concat("use ", join(choices, " or "))};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The number in base units, before it gets its type.
std::variant<double, QuantityFault> parse_with(const UnitTable& table, std::string_view text) {
  const std::string_view whole = trimmed(text);
  const QuantityFault no_quantity = {concat("\"", whole, "\" is not ", table.kind),
                                     concat("write a number and a unit, such as \"", table.example, "\"")};
  if (whole.empty()) return no_quantity;
  if (whole.front() == '-') {
    return QuantityFault{concat("negative value \"", whole, "\""), concat(table.kind, " is at least 0")};
  }
  if (whole.front() < '0' || whole.front() > '9') return no_quantity;

  double number = 0.0;
  const char* const end = whole.data() + whole.size();
  const auto [stop, error] = std::from_chars(whole.data(), end, number, std::chars_format::general);
  if (error != std::errc{} || !std::isfinite(number)) {
    return QuantityFault{concat("\"", whole, "\" is beyond the range of numbers"),
                         concat("write a number and a unit, such as \"", table.example, "\"")};
  }
  const std::string_view unit = trimmed(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  if (unit.empty()) {
    return QuantityFault{concat("the number ", whole, " has no unit"), concat("known units: ", unit_names(table))};
  }
  for (const Unit& known : table.units) {
    if (unit == known.name) {
      const double value = number * known.factor / known.divisor;
      if (std::isfinite(value)) return value;
      return QuantityFault{concat("\"", whole, "\" is beyond the range of numbers"), ""};
    }
  }
  return unknown_unit(unit, whole, table);
}

template <typename Quantity>
std::variant<Quantity, QuantityFault> parse_real(std::string_view text) {
  const std::variant<double, QuantityFault> value = parse_with(unit_table<Quantity>(), text);
  if (const auto* fault = std::get_if<QuantityFault>(&value)) return *fault;
  return Quantity{std::get<double>(value)};
}

}  // namespace

template <>
std::variant<Bytes, QuantityFault> parse_quantity<Bytes>(std::string_view text) {
  const std::variant<double, QuantityFault> value = parse_with(unit_table<Bytes>(), text);
  if (const auto* fault = std::get_if<QuantityFault>(&value)) return *fault;
  const double count = std::get<double>(value);
  // 2^60 B keeps sums of many such sizes inside 64 bits.
  if (count > 0x1p60) return QuantityFault{concat("\"", text, "\" is more than 1048576 TiB"), ""};
  return Bytes{std::llround(count)};
}

template <>
std::variant<Seconds, QuantityFault> parse_quantity<Seconds>(std::string_view text) {
  return parse_real<Seconds>(text);
}

template <>
std::variant<Flop, QuantityFault> parse_quantity<Flop>(std::string_view text) {
  return parse_real<Flop>(text);
}

template <>
std::variant<FlopPerSecond, QuantityFault> parse_quantity<FlopPerSecond>(std::string_view text) {
  return parse_real<FlopPerSecond>(text);
}

template <>
std::variant<BytesPerSecond, QuantityFault> parse_quantity<BytesPerSecond>(std::string_view text) {
  return parse_real<BytesPerSecond>(text);
}

template <typename Quantity>
std::string known_units() {
  return unit_names(unit_table<Quantity>());
}

template <typename Quantity>
std::string quantity_example() {
  const UnitTable table = unit_table<Quantity>();
  return concat(table.kind, " such as \"", table.example, "\"");
}

template std::string known_units<Bytes>();
template std::string known_units<Seconds>();
template std::string known_units<Flop>();
template std::string known_units<FlopPerSecond>();
template std::string known_units<BytesPerSecond>();
template std::string quantity_example<Bytes>();
template std::string quantity_example<Seconds>();
template std::string quantity_example<Flop>();
template std::string quantity_example<FlopPerSecond>();
template std::string quantity_example<BytesPerSecond>();

}  // namespace hpplan
