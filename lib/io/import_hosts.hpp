#pragma once

#include <string>
#include <vector>

namespace hpplan {

/// A machine of a host list.
struct Host {
  std::string name;
  int devices = 0;   // 0: the list does not say
  std::string type;  // label of its device type; "" when the list does not say
  int line = 0;
};

/// Hosts of a hostfile, in order. Accepted per line: `host slots=8 [max_slots=8] [type=LABEL]`, `host:8`, `host 8`,
/// a bare `host`, and `a:8,b:8`; `#` starts a comment. A node name may be a Slurm list such as `node[01-04]`.
/// Errors: a malformed line (quoted), a host named twice (both lines), a type on some hosts only, no host at all.
[[nodiscard]] std::vector<Host> read_hostfile(const std::string& text, const std::string& file);

/// Node names of a Slurm node list such as `node[01-04,7],b[1-2]r[1-2]`: zero padding is kept, several brackets of one
/// name make a product, the order is that of the text.
[[nodiscard]] std::vector<std::string> expand_node_list(const std::string& text, const std::string& source);

/// Counts of a Slurm list such as `8(x4),4`: 8, 8, 8, 8, 4.
[[nodiscard]] std::vector<int> expand_task_counts(const std::string& text, const std::string& source);

/// Hosts of a Slurm job: names from its node list, devices from its tasks per node ("" when unknown).
[[nodiscard]] std::vector<Host> read_slurm_hosts(const std::string& node_list, const std::string& tasks_per_node);

}  // namespace hpplan
