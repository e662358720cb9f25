#include <string>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::is_installed;
using test::run_hpplan;
using test::run_script;

namespace {

std::string candidates(const std::string& words) {
  const CommandResult result = run_hpplan("completion words -- " + words);
  CAPTURE(words, result.err);
  CHECK(result.code == 0);
  return result.out;
}

bool has_line(const std::string& text, const std::string& start) {
  return ("\n" + text).find("\n" + start) != std::string::npos;
}

/// What bash offers for a command line, split into words as bash splits them, with the cursor in the last one.
std::string in_bash(const std::string& words) {
  const CommandResult result =
      run_script("bash -c", "source <(hpplan completion bash)\nCOMP_WORDS=(hpplan " + words +
                                ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                "_hpplan hpplan \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                                "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
  CAPTURE(words, result.err);
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  return result.out;
}

bool skip_without(const std::string& program) {
  if (is_installed(program)) return false;
  WARN("skipped: no " << program);
  return true;
}

}  // namespace

TEST_CASE("completion offers verbs with their meaning, then the verbs below", "[cli][completion]") {
  CHECK(candidates("p").find("plan\tFinds the fastest plan") == 0);
  CHECK(has_line(candidates("p"), "profile\t"));
  CHECK_FALSE(has_line(candidates("p"), "check"));
  CHECK(has_line(candidates("profile ''"), "synthesize\t"));
  CHECK(has_line(candidates("sweep ''"), "summarize\t"));
  CHECK(has_line(candidates("sweep ''"), ":files"));
}

TEST_CASE("completion offers options once, and after their value the next", "[cli][completion]") {
  CHECK(has_line(candidates("plan --mo"), "--model\t"));
  CHECK_FALSE(has_line(candidates("plan --model gpt3-13b --mo"), "--model"));
  CHECK(has_line(candidates("plan --profile a --pro"), "--profile"));  // may be given again
  CHECK_FALSE(has_line(candidates("plan --mo"), "--svg"));
  CHECK(candidates("plan -- --mo").empty());
}

TEST_CASE("completion offers values from the tables that check them", "[cli][completion]") {
  CHECK(candidates("plan --model gpt3-13") == "gpt3-13b\n:files\n");
  CHECK(has_line(candidates("plan --cluster b2-b4-"), "b2-b4-64\n"));
  CHECK(candidates("schedule --family zb-h") == "zb-h1\nzb-h2\n");
  CHECK(candidates("export plan.json --to me") == "megatron\nmetis\n");
  CHECK(candidates("plan --progress a") == "auto\nalways\n");
  CHECK(candidates("plan --schedule 1") == "1f1b\n1f1b-adaptive\n");
  CHECK(candidates("plan --schedule 1f1b,zb-h") == "1f1b,zb-h1\n1f1b,zb-h2\n");
  CHECK(candidates("profile show gpt3-70b.rtx") == "gpt3-70b.rtx-3090\n:files\n:folders\n");
  CHECK(candidates("profile synthesize --device ascend-910b2") == "ascend-910b2\n");
  CHECK(candidates("plan --global-batch 1").empty());
  CHECK(candidates("export --out l") == ":folders\n");
  CHECK(candidates("completion f") == "fish\n");
}

TEST_CASE("completion understands --option=value, whole or split at the sign", "[cli][completion]") {
  CHECK(candidates("plan --model=gpt3-13") == "--model=gpt3-13b\n:files\n");
  CHECK(candidates("plan --model = gpt3-13") == "gpt3-13b\n:files\n");
  CHECK(has_line(candidates("plan --model ="), "gpt3-13b\n"));
  CHECK(has_line(candidates("plan --model=gpt3-13b --clu"), "--cluster\t"));
}

TEST_CASE("completion as JSON, and its usage faults", "[cli][completion]") {
  CHECK(run_hpplan("completion words --json -- plan --progress n").out ==
        "{\"words\": [{\"word\": \"never\", \"meaning\": \"\"}], \"files\": false, \"folders\": false}\n");
  CHECK(run_hpplan("completion").code == 2);
  CHECK(run_hpplan("completion tcsh").code == 2);
  CHECK(run_hpplan("completion bash extra").err.find("unexpected argument \"extra\"") != std::string::npos);
}

TEST_CASE("bash completes through its own script", "[cli][completion]") {
  CHECK(run_script("bash -c", "hpplan completion bash | bash -n").code == 0);
  CHECK(in_bash("pla") == "plan\n");
  CHECK(in_bash("plan --cluster a100-3090-5") == "a100-3090-512\n");
  CHECK(in_bash("plan --model = gpt3-7") == "gpt3-70b\n");
  CHECK(has_line(in_bash("plan --model ="), "gpt3-70b\n"));
  CHECK(has_line(in_bash("check ''"), "script\n"));  // the file that run_script writes
  CHECK(run_script("bash -c", "source <(hpplan completion bash); complete -p hpplan").out ==
        "complete -F _hpplan hpplan\n");
}

TEST_CASE("zsh completes through its own script", "[cli][completion]") {
  if (skip_without("zsh")) return;
  CHECK(run_script("bash -c", "hpplan completion zsh >_hpplan && zsh -n _hpplan").code == 0);
  const auto in_zsh = [](const std::string& words, const std::string& prefix) {
    return run_script("zsh -f -c",
                      "_describe() { print -l -- \"$3[@]\" ${(P)4} }\n_files() { print files $* }\n"
                      "source <(hpplan completion zsh)\nwords=(hpplan " +
                          words + " '" + prefix + "'); CURRENT=$#words; PREFIX='" + prefix + "'\n_hpplan\n")
        .out;
  };
  CHECK(has_line(in_zsh("", "pla"), "plan:Finds the fastest plan: pipelines"));
  CHECK(has_line(in_zsh("plan --cluster", "a100-3090-5"), "a100-3090-512\n"));
  CHECK(has_line(in_zsh("plan --cluster", "a100-3090-5"), "files\n"));
  CHECK(has_line(in_zsh("export --out", ""), "files -/\n"));
}

TEST_CASE("fish completes through its own script", "[cli][completion]") {
  if (skip_without("fish")) return;
  const auto in_fish = [](const std::string& line) {
    const CommandResult result = run_script("env HOME=\"$PWD\" fish --no-config -c",
                                            "hpplan completion fish | source; complete -C '" + line + "'");
    CAPTURE(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  CHECK(in_fish("hpplan pla").find("plan\tFinds the fastest plan") == 0);
  CHECK(has_line(in_fish("hpplan plan --cluster a100-3090-5"), "a100-3090-512\n"));
  CHECK(has_line(in_fish("hpplan plan --cluster=a100-3090-5"), "--cluster=a100-3090-512\n"));
  CHECK(has_line(in_fish("hpplan check scr"), "script\n"));
}
