#include "winnow/cli/cli.h"

int main(int argc, char** argv) {
  return winnow::run_program(argc, argv, winnow::builtin_registry());
}
