#include "io/job_reader.hpp"
#include "io/placement_rule_reader.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

std::string round_trip(const std::string& text) {
  const auto parsed = parse_placement_rule(RuleKind::Forbid, text);
  if (const auto* fault = std::get_if<RuleFault>(&parsed)) return "fault: " + fault->message;
  return to_text(std::get<PlacementRule>(parsed));
}

/// 4 blocks: layers 0 to 5; two groups g0 (type0) and g1 (type1) of two nodes of two devices each.
Inputs two_groups() {
  Inputs inputs = random_inputs(1, {8, 2, 4, 8});
  inputs.model.layers = {0, 1, 1, 1, 1, 2};
  NodeGroup group = inputs.cluster.node_groups[0];
  group.nodes = group.devices_per_node = 2;
  DeviceType type = inputs.cluster.device_types[0];
  inputs.cluster.node_groups.clear();
  inputs.cluster.device_types.clear();
  for (int g = 0; g < 2; ++g) {
    group.name = g == 0 ? "g0" : "g1";
    group.device_type = g;
    group.node_names = {group.name + "-0", group.name + "-1"};
    type.name = g == 0 ? "type0" : "type1";
    inputs.cluster.node_groups.push_back(group);
    inputs.cluster.device_types.push_back(type);
  }
  return inputs;
}

std::string fault_of(const std::vector<std::string>& forbid, const std::vector<std::string>& force = {}) {
  const Inputs inputs = two_groups();
  std::vector<PlacementRule> rules = parse_placement_rules(RuleKind::Forbid, forbid);
  for (const PlacementRule& rule : parse_placement_rules(RuleKind::Force, force)) rules.push_back(rule);
  const std::vector<RuleFault> faults = rule_faults(rules, inputs.model, inputs.cluster);
  return faults.empty() ? "" : faults.front().message + " | " + faults.front().hint;
}

AllowedPlaces places_of(const std::vector<std::string>& forbid, const std::vector<std::string>& force = {}) {
  const Inputs inputs = two_groups();
  std::vector<PlacementRule> rules = parse_placement_rules(RuleKind::Forbid, forbid);
  for (const PlacementRule& rule : parse_placement_rules(RuleKind::Force, force)) rules.push_back(rule);
  return {rules, inputs.model, inputs.cluster};
}

}  // namespace

TEST_CASE("a placement rule reads back as what it says", "[io][placement]") {
  CHECK(round_trip("type=a,b  stage=first") == "type=a,b stage=first");
  CHECK(round_trip("layers=embedding group=g") == "group=g stage=first");
  CHECK(round_trip("layers=head group=g") == "group=g stage=last");
  CHECK(round_trip("layers=2-5 type=a") == "type=a layers=2-5");
  CHECK(round_trip("layers=2..5 type=a") == "type=a layers=2-5");
  CHECK(round_trip("layers=3 type=a") == "type=a layers=3-3");
  CHECK(round_trip("node=n1,n2") == "node=n1,n2");
  CHECK(round_trip("device=n:1:3,m:0") == "device=n:1:3,m:0");
}

TEST_CASE("a placement rule with a wrong word says which", "[io][placement]") {
  const auto [text, message] = GENERATE(table<std::string, std::string>({
      {"", "an empty rule"},
      {"b2", "\"b2\" is not KEY=VALUE"},
      {"type=", "\"type=\" is not KEY=VALUE"},
      {"types=a", "unknown word \"types\" in \"types=a\""},
      {"type=a,,b", "an empty name in \"type=a,,b\""},
      {"type=a stage=middle", "\"stage=middle\""},
      {"type=a layers=5-2", "\"layers=5-2\" is no range of layers"},
      {"type=a layers=x", "\"layers=x\" is no range of layers"},
      {"type=a layers=1 stage=last", "\"stage=last\" after other layers"},
      {"device=n", "\"n\" in \"device=n\" is not NODE:INDEX"},
  }));
  CAPTURE(text);
  CHECK_THAT(round_trip(text), Contains("fault: " + message));
}

TEST_CASE("rules that the cluster or the model cannot keep are faults", "[io][placement]") {
  CHECK(fault_of({"type=type0 stage=first"}).empty());
  CHECK_THAT(fault_of({"type=typo1"}), Contains("no device type \"typo1\"") && Contains("did you mean \"type1\"?"));
  CHECK_THAT(fault_of({"group=x"}), Contains("no node group \"x\"") && Contains("g0, g1"));
  CHECK_THAT(fault_of({"node=g0-2"}), Contains("no node \"g0-2\""));
  CHECK_THAT(fault_of({"device=g0-1:2"}), Contains("node g0-1 has no device 2") && Contains("0 to 1"));
  CHECK_THAT(fault_of({"layers=0-6 type=type0"}), Contains("0 (embedding) to 5 (head)"));
  CHECK_THAT(fault_of({"layers=0-3"}), Contains("names no devices"));
  CHECK_THAT(fault_of({"node=g0-0 stage=first"}), Contains("holds for all layers"));
  CHECK_THAT(fault_of({"type=type0 layers=2-3"}, {"type=type0 layers=3-4"}), Contains("no device may hold layer 3"));
  CHECK_THAT(fault_of({"type=type0", "type=type1 stage=last"}), Contains("no device may hold layer 5 (head)"));
}

TEST_CASE("forbidden layers stay off the devices named, forced ones off all others", "[io][placement]") {
  const AllowedPlaces forbid = places_of({"type=type0 layers=1-2"});
  CHECK(forbid.may_hold(0, {0, 1}));
  CHECK_FALSE(forbid.may_hold(0, {0, 2}));
  CHECK_FALSE(forbid.may_hold(0, {2, 6}));
  CHECK(forbid.may_hold(0, {3, 6}));
  CHECK(forbid.may_hold(1, {0, 6}));
  const AllowedPlaces force = places_of({}, {"type=type0 layers=1-2"});
  CHECK(force.may_hold(0, {0, 6}));
  CHECK_FALSE(force.may_hold(1, {2, 3}));
}

TEST_CASE("devices that a rule takes away leave their node no whole one", "[io][placement]") {
  const AllowedPlaces places = places_of({"device=g0-1:0", "node=g1-0"});
  CHECK(places.usable(0, 0) == std::vector<int>{0, 1});
  CHECK(places.usable(0, 1) == std::vector<int>{1});
  CHECK(places.whole_nodes(0) == 1);
  CHECK(places.device_count(0) == 3);
  CHECK(places.device_count(1) == 2);
  CHECK(places.largest_node(1) == 2);
  const AllowedPlaces only = places_of({}, {"node=g0-1,g1-1"});
  CHECK(only.device_count(0) == 2);
  CHECK_FALSE(only.may_use({1, 0, 1}));
}

}  // namespace hpplan::testing
