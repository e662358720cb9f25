#pragma once

#include <string>
#include <vector>

#include "domain/model.hpp"

namespace hpplan {

/// What the user adds to a file that does not say it; 0 and "" stand for "not given".
struct ModelImportOptions {
  std::string name;
  int sequence = 0;
  int vocabulary = 0;
  bool unfused_attention = false;
};

/// A model and the defaults that were taken, each said once.
struct ImportedModel {
  ModelSpec model;
  std::vector<std::string> notes;
};

/// The model of a Hugging Face `config.json`: GPT-2, LLaMA, Mistral, Qwen2, Qwen3, Mixtral, Qwen2-MoE, Qwen3-MoE,
/// DeepSeek-V2 and -V3, also nested as `text_config`. Attention with compressed keys and values (DeepSeek) becomes a
/// layer of stated cost with the exact number of parameters.
[[nodiscard]] ImportedModel import_hugging_face(const std::string& text, const std::string& file,
                                                const ModelImportOptions& options);

/// The model of Megatron-LM arguments: a list, one per line or as in a launch script.
[[nodiscard]] ImportedModel import_megatron_model(const std::string& text, const std::string& file,
                                                  const ModelImportOptions& options);

/// Either of both, by content.
[[nodiscard]] ImportedModel import_model(const std::string& text, const std::string& file,
                                         const ModelImportOptions& options);

}  // namespace hpplan
