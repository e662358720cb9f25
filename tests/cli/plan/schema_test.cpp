#include <cstdlib>
#include <string>

#include "judged_plan.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan::testing;

TEST_CASE("a plan is valid against the schema that hpplan ships", "[schema]") {
  const hpplan::test::ScratchFolder scratch;
  if (std::system("python3 -c 'import jsonschema' 2>/dev/null") != 0) return;  // NOLINT: a check where the tool is there
  const std::string plan = scratch.write("plan.json", hand_made_plan());
  const std::string schema = hpplan::test::source_path("configs/plan.schema.json");
  const std::string command =
      "python3 -c 'import json, jsonschema, sys; s = json.load(open(sys.argv[1])); "
      "jsonschema.Draft202012Validator.check_schema(s); "
      "jsonschema.Draft202012Validator(s).validate(json.load(open(sys.argv[2])))' " +
      schema + " " + plan;
  CHECK(std::system(command.c_str()) == 0);  // NOLINT
}
