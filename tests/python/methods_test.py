"""Rules in Python."""
import os
import signal
import threading
import traceback
import unittest

from support import Case, tree

import winnow
import torch


@winnow.method
def plain(global_model, uploads):
    """FedAvg by another name."""
    return winnow.mean(uploads)


@winnow.method
def slow(global_model, uploads, *, pace=0.5):
    target = winnow.mean(uploads)
    return {name: old + pace * (target[name] - old) for name, old in global_model.items()}


@winnow.method
def heavy(global_model, uploads, state, *, friction=0.9):
    """Momentum on the server: its state is one tensor for each of the model's."""
    next_model = {}
    for name, value in winnow.mean(uploads).items():
        speed = friction * state.get(name, torch.zeros_like(value)) + value - global_model[name]
        state[name] = speed
        next_model[name] = global_model[name] + speed
    state["rounds"] = state.get("rounds", []) + [len(uploads)]
    return next_model


class Rules(Case):
    def go(self, method, **more):
        settings = dict(rounds=3)
        settings.update(more)
        return self.run_quietly(tree(), method=method, **settings)

    def test_a_rule_that_does_what_fedavg_does_has_its_bits(self):
        # The second one has running statistics and counters.
        normed = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, 2), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                                     torch.nn.Linear(4 * 7 * 7, 10))
        for network in ("cnn2", normed):
            with self.subTest(network):
                self.assertEqual(self.go("plain", model=network).hash, self.go("fedavg", model=network).hash)
        self.assertEqual(self.go("plain", lanes=1).hash, self.go("plain", lanes=3).hash)

    def test_it_is_a_method_like_others(self):
        self.assertEqual(winnow.describe("plain")["summary"], "FedAvg by another name.")
        self.assertIn("plain", list(winnow.methods()["name"]))
        wrapped = {"name": "clipfl", "base": "plain", "pre_rounds": 1}
        validation = {"source": "split", "share": 0.1}
        self.assertEqual(self.go(wrapped, validation=validation).hash,
                         self.go({**wrapped, "base": "fedavg"}, validation=validation).hash)
        sweep = winnow.sweep(tree(name="grid", grid={"method.name": ["fedavg", "plain"]}, rounds=1), progress=False)
        self.assertEqual(sweep.runs["fedavg_s1"].hash, sweep.runs["plain_s1"].hash)
        self.assertEqual(list(sweep.table("last")["row"]), ["fedavg", "plain"])

    def test_parameters_have_defaults_and_are_set_by_the_experiment(self):
        self.assertEqual(winnow.describe("slow")["parameters"]["default"].tolist(), [0.5])
        half = self.go("slow").hash
        self.assertEqual(self.go({"name": "slow", "pace": 0.5}).hash, half)
        self.assertNotEqual(self.go({"name": "slow", "pace": 0.25}).hash, half)
        self.refused(lambda: self.go({"name": "slow", "pase": 1}), "pase", kind="experiment", hint="pace")
        self.refused(lambda: self.go({"name": "slow", "pace": "much"}), "method.pace")

    def test_what_it_keeps_survives_a_stop_at_every_round(self):
        whole = self.go("heavy", rounds=4)
        stops = {2, 3}

        def stop(global_model, uploads, round, state, *, friction=0.9):
            if round in stops:
                stops.remove(round)
                raise KeyboardInterrupt
            return heavy(global_model, uploads, state, friction=friction)

        winnow.method(stop, name="stops_at_rounds")
        settings = tree(rounds=4, method={"name": "stops_at_rounds"})
        with self.assertRaisesRegex(KeyboardInterrupt, r"the run is saved; continue it with winnow.resume\('a'\)"):
            self.run_quietly(settings, out="a")
        with self.assertRaises(KeyboardInterrupt):
            winnow.resume("a", progress=False)
        self.assertEqual(winnow.resume("a", progress=False).hash, whole.hash)

    def test_what_cannot_be_kept_is_refused_at_once(self):
        @winnow.method
        def hoards(global_model, uploads, state):
            state["seen"] = {upload.client: 1 for upload in uploads}
            return global_model

        self.refused(lambda: self.go("hoards"), "method hoards: state.seen: a key is a int, expected a text")

    def test_selection_and_weights(self):
        seen = []

        def first(clients, count, round):
            seen.append((clients, count, round))
            return clients[:2]

        def only_zero(global_model, uploads):
            return [1.0 if upload.client == 0 else 0.0 for upload in uploads]

        @winnow.method(select=first, weights=only_zero)
        def favourite(global_model, uploads):
            zero = next(model for client, samples, model in uploads if client == 0)
            mean = winnow.mean(uploads)
            assert all(torch.equal(mean[name], zero[name]) for name in mean)
            assert [upload.client for upload in uploads] in ([0, 1], [1, 0])
            assert sum(upload.samples for upload in uploads) == 120
            return mean

        self.go("favourite", rounds=2)
        self.assertEqual(seen, [([0, 1, 2, 3], 3, 1), ([0, 1, 2, 3], 3, 2)])

    def test_what_it_does_to_models_stays_with_it(self):
        @winnow.method
        def clumsy(global_model, uploads):
            mean = winnow.mean(uploads)
            for upload in uploads:
                for tensor in upload.model.values():
                    tensor.zero_()
            for tensor in global_model.values():
                tensor.fill_(7)
            return mean

        self.assertEqual(self.go("clumsy", local_accuracy=True).hash, self.go("fedavg").hash)

    def test_it_runs_on_the_thread_that_called(self):
        threads = set()

        @winnow.method
        def where(global_model, uploads):
            threads.add(threading.get_ident())
            return global_model

        self.go("where")
        self.assertEqual(threads, {threading.get_ident()})

    def test_what_it_raises_comes_out_as_it_is(self):
        @winnow.method
        def breaks(global_model, uploads):
            return {}["fc.weight"]

        try:
            self.go("breaks")
            self.fail("nothing was raised")
        except KeyError as error:
            self.assertEqual(error.args, ("fc.weight",))
            self.assertIn("breaks", [entry.name for entry in traceback.extract_tb(error.__traceback__)])

    def test_ctrl_c_inside_a_rule(self):
        @winnow.method
        def endless(global_model, uploads):
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass

        with self.assertRaisesRegex(KeyboardInterrupt, "the run is saved"):
            self.go("endless")

    def test_wrong_models_are_refused_by_name(self):
        def more(global_model, uploads):
            return {**global_model, "fc9": torch.zeros(1)}

        def shape(global_model, uploads):
            return {name: value.flatten() for name, value in global_model.items()}

        def nan(global_model, uploads):
            return {name: value * float("nan") for name, value in global_model.items()}

        def nothing(global_model, uploads):
            pass

        def number(global_model, uploads):
            return {name: 1.0 for name in global_model}

        names = list(self.named())
        winnow.method(lambda model, uploads: {k: v for k, v in model.items() if k != names[-1]}, name="without")
        for rule, words in ((more, "the model has 'fc9', which the global one has not"),
                            (shape, "expected ("), (nan, "the model has values that are not finite"),
                            (nothing, "a NoneType is not a model"), (number, "is a float, not a tensor")):
            winnow.method(rule)
            with self.subTest(rule.__name__):
                self.refused(lambda: self.go(rule.__name__), f"method {rule.__name__}: ", words, kind="run")
        self.refused(lambda: self.go("without"), f"method without: the model has no '{names[-1]}'")

    def named(self):
        found = {}

        @winnow.method
        def looks(global_model, uploads):
            found.update(global_model)
            return global_model

        self.go("looks", rounds=1)
        return found

    def test_wrong_usage(self):
        self.refused(lambda: winnow.method(lambda model: model, name="short"), "method short: expected a function of")
        self.refused(lambda: winnow.method(lambda model, uploads, list: model, name="open"),
                     "method open: the parameter list needs a default")
        self.refused(lambda: winnow.method(lambda model, uploads: model, name="fedavg"),
                     "there is a method 'fedavg' already")
        self.refused(lambda: winnow.mean([]), "mean: there are no uploads")

        @winnow.method(weights=lambda model, uploads: [1])
        def few(global_model, uploads):
            return global_model

        @winnow.method
        def negative(global_model, uploads):
            return winnow.mean(uploads, [-1 for _ in uploads])

        self.refused(lambda: self.go("few"), "method few: 1 weights, but 3 uploads")
        self.refused(lambda: self.go("negative"), "mean: a weight is -1")
        for answer, words in (([], "select chose nobody"), ([1, 1], "select chose a client twice"),
                              ([9], "select chose a client that is not among those it was given")):
            winnow.method(lambda model, uploads: model, name="chooses", select=lambda *_, answer=answer: answer)
            self.refused(lambda: self.go("chooses"), words, kind="run")


if __name__ == "__main__":
    unittest.main()
