// winnow-net: winnow with the commands of a real federation. `winnow serve` and others start it.
#include "winnow/cli/cli.h"
#include "winnow/cli/early_start.h"
#include "winnow/net/chaos/commands.h"
#include "winnow/net/join/commands.h"
#include "winnow/net/pki/commands.h"
#include "winnow/net/serve/commands.h"

int main(int argc, char** argv) {
  const winnow::Registry registry = winnow::builtin_registry();
  return winnow::run_program(
      argc, argv, registry, winnow::local_engines(),
      {winnow::add_pki_command, winnow::add_serve_command, winnow::add_join_command,
       winnow::add_swarm_command, winnow::add_chaos_command});
}
