#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "emit/model_yaml.hpp"
#include "io/document_json.hpp"
#include "io/import_model.hpp"
#include "io/model_reader.hpp"
#include "load.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct ModelOptions {
  std::string path;
  std::string out = "-";
  ModelImportOptions import;
  bool json = false;
};

/// Notes are comments of YAML; where there is no place for them they go to standard error.
void write_model(const AppContext& context, const ModelOptions& options, const std::string& yaml,
                 const std::vector<std::string>& notes) {
  write_output(options.out, options.json ? document_json(yaml, "model") : yaml);
  if (options.out == "-" && !options.json) return;
  for (const std::string& note : notes) print_note(context, "note: " + note);
}

ExitCode import(const AppContext& context, const ModelOptions& options) {
  const InputText input = read_input(options.path);
  ImportedModel imported = import_model(input.text, input.name, options.import);
  imported.notes.push_back(concat(fixed(total_parameters(imported.model), 0), " parameters"));
  const std::string text = model_yaml(imported.model, imported.notes);
  // What our own reader does not take back would only fail later, and far from its cause.
  (void)parse_model(text, "imported model");
  write_model(context, options, text, imported.notes);
  return ExitCode::Done;
}

ExitCode show(const AppContext& context, const ModelOptions& options) {
  const ModelSpec model = load_model(options.path);
  write_model(context, options,
              model_yaml(model, {concat(fixed(total_parameters(model), 0), " parameters, ",
                                        fixed(active_parameters(model), 0), " of them per token")}),
              {});
  return ExitCode::Done;
}

}  // namespace

void add_model_verb(CLI::App& app, AppContext& context) {
  CLI::App& group = add_verb(
      app, context, {"model", "Imports and shows models.", "hpplan model import config.json --out model.yaml"}, {});
  const auto options = std::make_shared<ModelOptions>();
  CLI::App& import_verb =
      add_verb(group, context,
               {"import", "Writes the model file of a Hugging Face config.json or of Megatron-LM arguments.",
                "hpplan model import config.json --sequence 4096 --out model.yaml"},
               [&context, options] { return import(context, *options); });
  import_verb.add_option("path", options->path, "config.json, argument list or launch script; \"-\": standard input")
      ->required()
      ->type_name("FILE");
  import_verb.add_option("--out", options->out, "file to write; \"-\" (the default): standard output")
      ->type_name("FILE");
  import_verb.add_option("--name", options->import.name, "name of the model; default: from the file")
      ->type_name("NAME");
  import_verb.add_option("--sequence", options->import.sequence, "tokens of one sample; default: from the file")
      ->type_name("N")
      ->check(whole_number(1, 1 << 24));
  import_verb
      .add_option("--vocabulary", options->import.vocabulary, "entries of the vocabulary; default: from the file")
      ->type_name("N")
      ->check(whole_number(1, 1 << 26));
  import_verb.add_flag("--unfused-attention", options->import.unfused_attention, "attention that stores its scores");
  import_verb.add_flag("--json", options->json, "the model file as JSON");

  const auto show_options = std::make_shared<ModelOptions>();
  CLI::App& show_verb = add_verb(
      group, context, {"show", "Prints a model with every field, defaults included.", "hpplan model show gpt3-13b"},
      [&context, show_options] { return show(context, *show_options); });
  show_verb.add_option("model", show_options->path, "model file, \"-\", or the name of a shipped model")
      ->required()
      ->type_name("MODEL");
  show_verb.add_option("--out", show_options->out, "file to write; \"-\" (the default): standard output")
      ->type_name("FILE");
  show_verb.add_flag("--json", show_options->json, "the model file as JSON");
}

}  // namespace hpplan
