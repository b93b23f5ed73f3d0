#include "winnow/method/sample_history.h"

#include <ATen/ATen.h>

#include <tuple>
#include <utility>

#include "winnow/method/local_training.h"

namespace winnow {
namespace {

std::string recorded_name(const HistoryForm& form) {
  return form.method + ".recorded";
}

}  // namespace

std::vector<std::int64_t> HistoryForm::shape_for(std::int64_t samples) const {
  std::vector<std::int64_t> whole{samples, length};
  whole.insert(whole.end(), shape.begin(), shape.end());
  return whole;
}

SampleHistory::SampleHistory(HistoryForm form, ClientContext& context) : form_(std::move(form)) {
  recorded_ = context.archive().values.value(recorded_name(form_), std::int64_t{0});
  ring_ = fill(context.trainer(), form_.ring,
               context.recall(form_.ring, at::zeros(form_.shape_for(context.size()), form_.type)));
}

void SampleHistory::begin_epoch(const Plan& epoch, Trainer& trainer) {
  place_ = fill(trainer, form_.method + ".place", epoch.place);
  slot_ = fill(trainer, form_.method + ".slot", at::full({1}, recorded_ % form_.length, at::kLong));
  ++recorded_;
}

void SampleHistory::remember(ClientContext& context) const {
  context.remember(form_.ring, first_rows(ring_, context.size()));
  context.archive().values[recorded_name(form_)] = recorded_;
}

at::Tensor check_history(const HistoryForm& form, ClientContext& context) {
  const Archive& archive = context.archive();
  std::ignore = archive.count(recorded_name(form));
  return archive.tensor(form.ring, form.type, form.shape_for(context.size()));
}

}  // namespace winnow
