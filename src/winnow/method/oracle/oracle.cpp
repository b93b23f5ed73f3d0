#include "winnow/method/oracle/oracle.h"

#include "winnow/method/base_choice.h"

namespace winnow {
namespace {

// The samples are taken away where the clients are made; what is left is the base's business.
class Oracle final : public Method {
 public:
  void know(const Registry& methods) override { base_.know(methods); }
  void declare(Params& params) override {
    params.add("base", base_, "the method that is given right samples only")
        .source("spec: baselines 27");
  }
  void check(const Setting& setting) const override { base_->check(setting); }
  bool needs_features() const override { return base_->needs_features(); }
  std::int64_t projection() const override { return base_->projection(); }
  std::unique_ptr<ClientSide> client_side() const override { return base_->client_side(); }
  std::vector<Schema> schemas() const override { return base_->schemas(); }
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
          .summary = "oracle (uses ground truth): a base method on correct samples only",
          .make = [] { return std::make_unique<Oracle>(); },
          .truth = Truth::samples};
}

}  // namespace winnow
