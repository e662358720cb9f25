#include "base/text.hpp"

#include "support/catch.hpp"

using namespace hpplan;

TEST_CASE("the nearest name is one that a slip of the fingers turns into the word", "[base][text]") {
  const std::vector<std::string> names = {"show", "plan", "simulate", "node_groups"};
  CHECK(nearest_name("shwo", names) == "show");  // swapped letters are one slip
  CHECK(nearest_name("pln", names) == "plan");
  CHECK(nearest_name("simulat", names) == "simulate");
  CHECK(nearest_name("nodegroups", names) == "node_groups");
  CHECK(nearest_name("PLAN", names) == "plan");  // case is no slip
  CHECK(nearest_name("export", names).empty());
  CHECK(nearest_name("x", {"y"}).empty());  // nothing in common
  CHECK(nearest_name("", names).empty());
}
