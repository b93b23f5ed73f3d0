// The audit of a federation by its own members (spec: audit 9): which clients are bad and in what
// way, from sums alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "winnow/method/audit/audit/client.h"
#include "winnow/method/audit/audit/judging.h"
#include "winnow/method/method.h"
#include "winnow/method/round.h"

namespace winnow {

// Trains a model for every fold by FedAvg, without the clients of the fold, one fold after the
// other; then, in one more round, has every client judge its own samples by the model of its fold
// and pools their sums, in three asks. The server learns of a client its models, counts and sums,
// and what it makes of them; which samples are suspect stays with their owner.
class AuditMethod final : public Method {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::int64_t rounds(const Setting& setting) const override;
  std::string schedule(const Setting& setting) const override;
  bool needs_features() const override { return true; }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it compares the update of every client with the others'");
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void play(std::int64_t number, Server& server) override;
  Findings findings() const override;
  // Once, at the end: how right the suspects are.
  std::string keeps_labels_as(std::int64_t round, const Setting& setting) const override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // Gives every client that holds samples a fold: all at once in the beginning, who comes later as
  // they come.
  void deal(Server& server, std::int64_t number);
  void play_fold(std::int64_t fold, std::int64_t number, Server& server);
  // How the clients of the next fold would move this one's model.
  void probe(std::int64_t fold, Server& server);
  void judge(Round& round);
  std::map<std::int64_t, audit::FirstSums> ask_first(Round& round) const;
  std::map<std::int64_t, audit::SecondSums> ask_second(
      Round& round, std::map<std::int64_t, audit::FirstSums>& first) const;
  void close(Round& round, const std::map<std::int64_t, ClientFinding>& found,
             const std::vector<double>& bars);
  std::vector<std::int64_t> members_of(std::int64_t fold, const Fleet& fleet) const;
  std::vector<std::int64_t> trainers_of(std::int64_t fold) const;

  audit::Options options_;
  std::map<std::int64_t, std::int64_t> folds_;    // by client
  std::map<std::int64_t, at::Tensor> models_;     // of finished folds, flat
  std::map<std::int64_t, double> update_cosine_;  // by client, where it was probed
  std::map<std::int64_t, double> update_norm_;
  // What was found, by name and client; empty before the last round.
  std::map<std::string, std::map<std::int64_t, double>> found_;
};

MethodInfo audit_info();

}  // namespace winnow
