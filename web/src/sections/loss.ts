// What training minimised, and the loss on the test set.
import { curves, kCosts, kSpreads, options } from "../curves";
import { isNumber } from "../data";
import { h, segmented } from "../dom";
import { LineChart } from "../line_chart";
import type { XAxis } from "../stats";
import { groups, type Section, type View } from "../view";

const kTrain = "Training loss";
const kTest = "Test loss";

export function lossSection(): Section {
  let mode = kSpreads[0].value;
  let axis: XAxis = "round";
  let view: View | undefined;
  const train = new LineChart(options(axis, "train_loss", kTrain));
  const test = new LineChart(options(axis, "loss", kTest));
  const draw = (): void => {
    train.describe(options(axis, "train_loss", kTrain));
    test.describe(options(axis, "loss", kTest));
    if (view) {
      train.show(curves(view, axis, "train_loss", mode));
      test.show(curves(view, axis, "loss", mode));
    }
  };
  const aboutTrain = h(
    "p",
    { class: "note" },
    "Training loss is what the clients of a round minimised, on the labels that they trained on: the mean " +
      "over all samples of all their epochs, as training went on. Methods minimise different things and choose " +
      "different samples, so it shows how one method progresses rather than which is best.",
  );
  const aboutTest = h(
    "p",
    { class: "note" },
    "Test loss is the cross-entropy on the test set, in the rounds that were evaluated; a loss that is not " +
      "finite is left out.",
  );
  const element = h(
    "section",
    { "aria-labelledby": "loss" },
    h("h2", { id: "loss" }, "Loss"),
    h(
      "div",
      { class: "controls" },
      segmented("Spread of the loss over seeds", kSpreads, mode, (value) => {
        mode = value;
        draw();
      }),
      segmented("What the loss is drawn against", [{ value: "round", text: "Rounds" }, ...kCosts], axis, (value) => {
        axis = value;
        draw();
      }),
    ),
    h("div", { class: "pair" }, train.element, test.element),
    aboutTrain,
    aboutTest,
  );
  return {
    element,
    update(next) {
      view = next;
      const has = (name: "loss" | "train_loss") =>
        groups(next).some(({ runs }) => runs.some((run) => run.history?.[name]?.some(isNumber)));
      train.element.hidden = !has("train_loss");
      test.element.hidden = !has("loss");
      aboutTrain.hidden = train.element.hidden;
      aboutTest.hidden = test.element.hidden;
      element.hidden = train.element.hidden && test.element.hidden;
      draw();
    },
  };
}
