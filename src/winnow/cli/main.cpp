#include "winnow/cli/cli.h"
#include "winnow/cli/early_start.h"

int main(int argc, char** argv) {
  return winnow::run_program(argc, argv, winnow::builtin_registry());
}
