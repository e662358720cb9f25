#include <CLI/CLI.hpp>
#include <iostream>

int main(int argc, char** argv) {
  CLI::App app{"hpplan: plans for training on mixed accelerators"};
  app.set_version_flag("--version", HPPLAN_VERSION);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
