// A noise ledger.
#include "winnow/noise/ledger.h"

#include "json_mutator.h"
#include "target.h"

using namespace winnow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::only_errors([&] {
    const Ledger ledger =
        Ledger::parse(std::string_view(reinterpret_cast<const char*>(data), size), "ledger.jsonl");
    const Ledger again = Ledger::parse(ledger.text(), "again.jsonl");
    fuzz::require(again.text() == ledger.text(), "what is written reads back");
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return fuzz::mutate_json_input(data, size, max_size, seed, 3);
}
