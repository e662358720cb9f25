#pragma once

#include <string>
#include <variant>

#include "domain/placement_rule.hpp"

namespace hpplan {

/// What a rule may say, with an example: for hints and help.
inline constexpr const char* kRuleForms =
    "words such as type=NAME, group=NAME, node=NAME, device=NODE:INDEX, layers=FIRST-LAST, layers=head, stage=first, "
    "stage=last; for example \"type=ascend-910b4 stage=first\"";

/// "type=ascend-910b4 layers=0-3": conditions that all hold, each with one value or several with commas between. Layers
/// count from the embedding, 0, and FIRST and LAST are both meant. stage=first and layers=embedding are layer 0,
/// stage=last and layers=head the last one. A fault says which word is wrong.
[[nodiscard]] std::variant<PlacementRule, RuleFault> parse_placement_rule(RuleKind kind, const std::string& text);

}  // namespace hpplan
