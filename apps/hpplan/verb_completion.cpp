#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "completion.hpp"
#include "emit/report_json.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct CompletionOptions {
  std::string shell;
  std::vector<std::string> words;
  std::string out = "-";
  bool json = false;
};

std::vector<std::string> shells_and_words() {
  std::vector<std::string> names = completion_shells();
  names.emplace_back("words");
  return names;
}

std::string words_json(const Completion& completion) {
  std::vector<Report> words;
  for (const CompletionWord& word : completion.words) {
    words.push_back(Report().add("word", word.word).add("meaning", word.meaning));
  }
  return report_json(Report().add("words", words).add("files", completion.files).add("folders", completion.folders));
}

ExitCode run_completion(const CLI::App& program, const CompletionOptions& options) {
  if (options.shell == "words") {
    const Completion completion = complete(program, options.words);
    write_output(options.out, options.json ? words_json(completion) : completion_lines(completion));
    return ExitCode::Done;
  }
  if (!options.words.empty()) {
    throw InputError(Diagnostic{"", 0, 0, "", concat("unexpected argument \"", options.words.front(), "\""),
                                "see hpplan completion --help"});
  }
  const std::string script = completion_script(options.shell);
  write_output(options.out,
               options.json ? report_json(Report().add("shell", options.shell).add("script", script)) : script);
  return ExitCode::Done;
}

}  // namespace

void add_completion_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<CompletionOptions>();
  CLI::App& verb = add_verb(app, context,
                            {"completion", "Writes the script that completes command lines of hpplan in a shell.",
                             "hpplan completion bash >hpplan.bash && source ./hpplan.bash"},
                            [&app, options] { return run_completion(app, *options); });
  verb.add_option("SHELL", options->shell, "the shell; words: what its script asks for, see hpplan-completion(1)")
      ->required()
      ->check(one_of(shells_and_words()))
      ->type_name(join(shells_and_words(), "|"));
  verb.add_option("WORDS", options->words, "with words: the command line up to the cursor, after \"--\"")
      ->type_name("WORD");
  verb.add_option("--out", options->out, "file to write; \"-\" (the default): standard output")
      ->type_name("FILE")
      ->group("Output");
  verb.add_flag("--json", options->json, "the result as JSON")->group("Output");
}

}  // namespace hpplan
