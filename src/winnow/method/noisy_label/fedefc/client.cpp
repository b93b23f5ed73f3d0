#include "winnow/method/noisy_label/fedefc/client.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/fedefc/arithmetic.h"

namespace winnow::fedefc {
namespace {

constexpr double kLeastChance = 1e-12;  // keeps a logarithm finite

}  // namespace

// spec: rivals 5.5
at::Tensor forward_loss(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& matrix) {
  const at::Tensor given = logits.softmax(1).matmul(matrix.t());
  return -(given.gather(1, labels.unsqueeze(1)) + kLeastChance).log().mean();
}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  {
    const c10::NoGradGuard counting;
    buffers_.correct.index_copy_(0, batch.entries, logits.argmax(1).eq(batch.labels).to(at::kByte));
  }
  return buffers_.matrix.defined() ? forward_loss(logits, batch.labels, buffers_.matrix)
                                   : plain_.loss_of(logits, batch);
}

std::string Objective::signature() const {
  return buffers_.matrix.defined() ? "fedefc corrected" : "fedefc " + plain_.signature();
}

at::Tensor Client::matrix(const State& model, ClientContext& context) const {
  const LocalSet set = context.local_set();
  const at::Tensor p = context.logits(model, context.options().eval_batch)
                           .to(at::kDouble)
                           .softmax(1)
                           .cpu()
                           .contiguous();
  const auto classes = static_cast<std::size_t>(p.size(1));
  const std::span<const double> rows{p.data_ptr<double>(), static_cast<std::size_t>(p.numel())};
  const std::vector<double> made =
      transition(count_matrix(rows, set.labels, classes),
                 prior_ ? frequencies(set.labels, classes) : std::vector<double>(), classes);
  return at::tensor(made, at::kDouble).to(at::kFloat).view({p.size(1), p.size(1)});
}

Message Client::handle(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const auto& start = task.get<State>("model");
  double accuracy = 0.0;
  State trained = start.clone();
  if (context.size() > 0) {
    context.options().mixup = 0.0;  // a mixture is of no one class
    Trainer& trainer = context.trainer();
    const TrainKey key = context.key(round);
    const Plan plan = make_plan(context.local_set(), context.options(), context.augment(), key);
    Buffers buffers;
    if (task.get<std::uint8_t>("corrected") != 0) {
      const at::Tensor made = matrix(start, context);
      buffers.matrix = fill(trainer, "fedefc.matrix", made).narrow(0, 0, made.size(0));
    }
    buffers.correct = trainer.buffer("fedefc.correct", plan.entries(), {}, at::kByte);
    trainer.begin({start}, key);
    trainer.take_steps(plan, Objective(buffers, context.options()),
                       stepping(context.options(), round));
    trained = trainer.finished_model();
    accuracy =
        plan.entries() == 0
            ? 0.0
            : first_rows(buffers.correct, plan.entries()).to(at::kDouble).mean().item<double>();
  }
  return train_done(std::move(trained), context).set("accuracy", accuracy);
}

}  // namespace winnow::fedefc
