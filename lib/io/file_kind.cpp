#include "io/file_kind.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace hpplan {

namespace {

/// How a kind of file is called, and keys of which it has one at least.
struct KindKeys {
  FileKind kind;
  const char* name;
  std::vector<std::string> keys;
};

const std::vector<KindKeys>& known_kinds() {
  static const std::vector<KindKeys> kinds = {
      {FileKind::Model, "a model", {"family", "hidden", "heads"}},
      {FileKind::Cluster, "a cluster", {"node_groups"}},
      {FileKind::Plan, "a plan", {"pipelines", "format", "gradient_sync"}},
      {FileKind::Profile, "a profile", {"series", "format"}},
      {FileKind::Sweep, "a sweep", {"base", "grid", "points"}},
  };
  return kinds;
}

bool has_any(const Reader& root, const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return root.has(key); });
}

}  // namespace

void check_kind(const Document& document, FileKind wanted) {
  const Reader root = document.root();
  const std::vector<KindKeys>& kinds = known_kinds();
  const auto own = std::find_if(kinds.begin(), kinds.end(), [&](const KindKeys& each) { return each.kind == wanted; });
  if (root.kind() != ValueKind::Map || has_any(root, own->keys)) return;
  for (const KindKeys& other : kinds) {
    if (!has_any(root, other.keys)) continue;
    root.fault(concat("this is ", other.name, ", needed ", own->name), "");
    document.finish();
  }
}

}  // namespace hpplan
