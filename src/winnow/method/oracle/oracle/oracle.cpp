#include "winnow/method/oracle/oracle/oracle.h"

#include "winnow/method/base_choice.h"

namespace winnow {
namespace {

// The samples are taken away where the clients are made; what is left is the base's business.
class Oracle final : public Method {
 public:
  void know(const Offered& offered) override { base_.know(offered); }
  void declare(Params& params) override {
    params
        .add("base", base_,
             "base method that trains on correctly labelled, undistorted samples only")
        .source("spec: baselines 27");
  }
  void check(const Setting& setting) const override { base_->check(setting); }
  bool needs_features() const override { return base_->needs_features(); }
  std::string needs_sgd() const override { return base_.needs_sgd(); }
  std::int64_t projection() const override { return base_->projection(); }
  ServerNeeds server_needs() const override { return base_->server_needs(); }
  std::unique_ptr<ClientSide> client_side() const override { return base_->client_side(); }
  std::vector<Exchange> exchanges(const Setting& setting) const override {
    return base_->exchanges(setting);
  }
  void play(std::int64_t round, Server& server) override { base_->play(round, server); }
  Findings findings() const override { return base_->findings(); }
  void save(Archive& archive) const override { base_.save(archive); }
  void load(const Archive& archive) override { base_.load(archive); }

 private:
  BaseChoice base_;
};

}  // namespace

MethodInfo oracle_info() {
  return {.name = "oracle",
          .group = "oracle",
          .summary = "uses ground truth: a base method on correct samples only",
          .make = [] { return std::make_unique<Oracle>(); },
          .truth = Truth::samples};
}

}  // namespace winnow
