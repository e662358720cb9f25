#pragma once

#include "io/document.hpp"

namespace hpplan {

/// The kinds of files that people confuse on the command line.
enum class FileKind { Model, Cluster, Plan, Profile, Sweep };

/// Throws InputError with one message when the document is clearly no file of this kind: it has none of the keys that
/// tell the kind, and those of another. Without this a swapped file is a list of missing and unknown keys.
void check_kind(const Document& document, FileKind wanted);

}  // namespace hpplan
