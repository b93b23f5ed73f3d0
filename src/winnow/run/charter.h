// The charter: what the members of a real federation agree on before the first task. It is made by
// the server from its experiment, travels as JSON and has a hash, by which a member says what it
// has agreed to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/experiment/experiment.h"
#include "winnow/experiment/registry.h"
#include "winnow/federation/exchange.h"

namespace winnow {

class Crew;
class Workplace;

// Raised whenever the arithmetic of a client changes: equal bits are promised for equal ones only.
inline constexpr std::uint32_t kNumerics = 1;

// Of a charter's text, in bytes.
inline constexpr std::size_t kLongestCharter = std::size_t{1} << 20;

struct Charter {
  std::string federation;  // id of the authority
  std::int64_t members = 0;
  // What decides the computing: seed, rounds, federation.fraction, train, model, method; no paths.
  Json experiment = Json::object();
  // What every member's samples have to be: class_names, channels, height, width, mean, std, crop,
  // augment.
  Json data = Json::object();
  std::int64_t validation = 0;  // samples that the server measures with
  std::int64_t public_images = 0;
  std::string public_digest;  // SHA-256 of their bytes, hexadecimal; empty where there are none
  std::string layout;         // layout_digest() of the networks
  std::uint32_t numerics = kNumerics;
  std::string arithmetic;           // name of the server's
  std::vector<std::string> leaves;  // what leaves a member, a line each, from the exchanges
  bool masked = false;              // models leave it under masks, of which only the sum is free

  std::string text() const;  // JSON; the same charter has the same text
  std::string hash() const;  // SHA-256 of text(), hexadecimal
};

// Of the networks that clients train: Layout::digest() where all have the same.
std::string layout_digest(const Crew& crew);

// What leaves a member, each thing once: "NAME: what it tells" of every field of a reply.
std::vector<std::string> lines_of(const std::vector<Exchange>& exchanges);

Charter make_charter(const std::string& federation, const Experiment& experiment,
                     const Workplace& place);
// The same where models travel under masks, by exchanges of their own.
Charter make_masked_charter(const std::string& federation, const Experiment& experiment,
                            const Workplace& place, const std::vector<Exchange>& exchanges);

// From a server, who may send anything: bounded, every value of its type, every text one line, and
// in the one form that text() gives. Throws Error(kind peer). Whether the experiment in it is sound
// is looked at by charter_experiment(), and whether `leaves` is true where the exchanges are known.
Charter read_charter(const std::string& text);

// The experiment as a member computes with it: N clients, no data, no noise. Throws Error(kind
// peer) for what no server may have a member do: keys beyond those of Charter::experiment, paths,
// TorchScript, oracles, debug options.
Experiment charter_experiment(const Charter& charter, const Registry& registry);

// Refuses, with Error(kind experiment) in one line, what has no meaning among members whose truth
// nobody knows or what would take more from them than a method needs: oracles, debug options,
// TorchScript, centralised, noise, drop-outs, models measured at the clients.
void check_servable(const Experiment& experiment, const Registry& registry);

}  // namespace winnow
