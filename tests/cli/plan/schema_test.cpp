#include <cstdlib>
#include <string>

#include "judged_plan.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan::testing;

TEST_CASE("a plan is valid against the schema that hpplan ships", "[schema]") {
  const hpplan::test::ScratchFolder scratch;
  if (std::system("python3 -c 'import jsonschema' 2>/dev/null") != 0)
    return;  // NOLINT: a check where the tool is there
  const std::string kind =
      GENERATE(std::string("1f1b"), "zb-v", "dualpipe", "octopipe", "paci --max-drift 1", "zb-auto");
  CAPTURE(kind);
  const std::string command_line =
      "plan --model gpt3-350m --cluster a100-3090-4 --global-batch 8 --micro-batch 2 --stages 2 "
      "--threads 1 --json --schedule ";
  const std::string plan =
      scratch.write("plan.json", kind == "1f1b" ? hand_made_plan() : hpplan::test::run_hpplan(command_line + kind).out);
  const std::string schema = hpplan::test::source_path("configs/plan.schema.json");
  const std::string command =
      "python3 -c 'import json, jsonschema, sys; s = json.load(open(sys.argv[1])); "
      "jsonschema.Draft202012Validator.check_schema(s); "
      "jsonschema.Draft202012Validator(s).validate(json.load(open(sys.argv[2])))' " +
      schema + " " + plan;
  CHECK(std::system(command.c_str()) == 0);  // NOLINT
}
