#include "option_checks.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/text.hpp"

namespace hpplan {

namespace {

/// True if all of `text` is a number, which is then in `value`.
template <typename Number>
bool read_number(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

std::string found(const std::string& text, const std::string& needed) {
  constexpr std::size_t kShown = 60;
  return concat("found \"", text.substr(0, kShown), text.size() > kShown ? "..." : "", "\", needed ", needed);
}

CLI::Validator number_check(std::string needed, std::function<bool(double)> allowed) {
  return {[needed = std::move(needed), allowed = std::move(allowed)](const std::string& text) {
            double value = 0.0;
            const bool fine = read_number(text, value) && std::isfinite(value) && allowed(value);
            return fine ? std::string() : found(text, needed);
          },
          ""};
}

}  // namespace

CLI::Validator whole_number(int min, int max) {
  const bool open_ended = max == std::numeric_limits<int>::max();
  const std::string needed =
      open_ended ? concat("a whole number of at least ", min) : concat("a whole number from ", min, " to ", max);
  return {[=](const std::string& text) {
            int value = 0;
            const bool fine = read_number(text, value) && value >= min && value <= max;
            return fine ? std::string() : found(text, needed);
          },
          ""};
}

CLI::Validator number_from(double min, double max) {
  const bool open_ended = max == std::numeric_limits<double>::max();
  return number_check(open_ended ? concat("a number of at least ", shortest(min))
                                 : concat("a number from ", shortest(min), " to ", shortest(max)),
                      [=](double value) { return value >= min && value <= max; });
}

CLI::Validator positive_number() {
  return number_check("a number above 0", [](double value) { return value > 0.0; });
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string known = join(words, ", ");
  return {[words = std::move(words), known](const std::string& text) {
            if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
            const std::string nearest = nearest_name(text.substr(0, 64), words);
            return found(text, concat("one of ", known)) +
                   (nearest.empty() ? "" : concat("; did you mean \"", nearest, "\"?"));
          },
          ""};
}

}  // namespace hpplan
