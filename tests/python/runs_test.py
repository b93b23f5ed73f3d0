"""winnow.run, resume, sweep, table, audit, describe."""
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from support import Case, squares, tree

import winnow
import numpy
import torch


class Runs(Case):
    def test_a_file_gives_the_model_of_the_command_line(self):
        self.folder.joinpath("e.toml").write_text(
            'name = "small"\nrounds = 2\n[data]\nname = "synthetic"\nsamples = 200\ntest_samples = 50\n'
            '[federation]\nclients = 4\n[model]\nname = "cnn2"\n[train]\nepochs = 1\n')
        run = self.run_quietly("e.toml", seed=7, rounds=3, train={"lr": 0.03}, **{"federation.fraction": 0.5})
        self.assertEqual(run.hash, self.command_line_hash("e.toml", "--seed", "7", "--set", "rounds=3", "--set",
                                                          "train.lr=0.03", "--set", "federation.fraction=0.5"))
        self.assertEqual(str(run.path), "runs/small")
        self.assertEqual(str(self.run_quietly("e.toml").path), "runs/small-2")
        # The command line reads what Python has written.
        self.assertIn("every model hash agrees", self.program("verify", "runs/small"))

    def test_a_run_has_everything_that_its_directory_has(self):
        run = self.run_quietly(tree(noise=[{"name": "symmetric", "rate": 0.4}]), out="a")
        self.assertEqual(list(run.metrics["round"]), [1, 2, 3])
        self.assertEqual(run.metrics["accuracy"].iloc[-1], run.summary["last"])
        self.assertEqual(run.summary["arithmetic"], winnow._core.arithmetic())
        self.assertNotEqual(run.summary["arithmetic"], "unnamed")
        self.assertEqual(run.findings["round"], 3)
        self.assertEqual(len(run.ledger), run.summary["noise"]["wrong_labels"])
        self.assertTrue((run.ledger["from"] != run.ledger["to"]).all())
        self.assertEqual(winnow.Run("a").hash, run.hash)
        self.assertEqual(winnow.resume("a", progress=False).hash, run.hash)
        page = run.report()
        self.assertIn('<iframe srcdoc="&lt;!', page._repr_html_()[:60])
        page.save("page.html")
        self.assertEqual(self.folder.joinpath("page.html").read_text(), page.html)
        self.assertIn("small: fedavg, 3 rounds", repr(run))

    def test_the_model_of_a_run_has_its_accuracy(self):
        x, y = squares(300, 1)
        test = squares(100, 2)
        run = self.run_quietly(tree(), data=(x, y), test=test, model="lenet5", train={"lr": 0.1, "epochs": 3})
        self.assertGreater(run.summary["last"], 0.9)
        self.assertEqual(accuracy(run.model(), test), run.summary["last"])

    def test_the_settings_of_torch_are_as_before(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        with torch.no_grad():
            self.run_quietly(tree(rounds=1))
            self.assertFalse(torch.is_grad_enabled())
        self.assertEqual(torch.get_num_threads(), 2)
        torch.set_num_threads(before)

    def test_wrong_usage_has_the_words_of_winnow(self):
        self.refused(lambda: self.run_quietly(tree(rounds=0)), "rounds = 0", kind="experiment")
        self.refused(lambda: self.run_quietly(tree(), train={"lrr": 1}), "lrr", kind="experiment",
                     hint="did you mean 'train.lr'?")
        self.refused(lambda: self.run_quietly(tree(), method="fedavgg"), "unknown method 'fedavgg'", hint="fedavg")
        self.refused(lambda: self.run_quietly("none.toml"), "none.toml", kind="experiment")
        self.refused(lambda: self.run_quietly(tree(rounds=object())), "rounds: a object cannot be written down")
        self.refused(lambda: self.run_quietly(tree(grid={"seed": [1]})), "it is a sweep", hint="winnow.sweep()")
        self.refused(lambda: self.run_quietly(tree(), model=3), "model: a int, expected a name or a torch.nn.Module")
        self.refused(lambda: winnow.Run("nowhere"), "nowhere is not a run directory")
        self.run_quietly(tree(), out="a", rounds=1)
        self.refused(lambda: self.run_quietly(tree(), out="a"), "a holds a finished run", kind="run",
                     hint="replace it with force=True, or choose another out=")
        self.assertEqual(self.run_quietly(tree(), out="a", rounds=2, force=True).summary["rounds"], 2)
        self.folder.joinpath("bad.toml").write_text("rounds = -1\n")
        self.refused(lambda: self.run_quietly("bad.toml"), "bad.toml: rounds = -1")


class Networks(Case):
    def setUp(self):
        super().setUp()
        self.data, self.test = squares(240, 1), squares(80, 2)

    def go(self, module, **more):
        return self.run_quietly(tree(), data=self.data, test=self.test, model=module, out="own", **more)

    def test_a_module_comes_back_with_the_weights_put_in(self):
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                                     torch.nn.Flatten(), torch.nn.Linear(4 * 14 * 14, 4))
        first = module[4].weight.detach().clone()
        run = self.go(module, rounds=6)
        self.assertTrue(module.training and torch.equal(module[4].weight, first))  # a run leaves it alone
        self.assertIs(run.model(), module)
        self.assertFalse(torch.equal(module[4].weight, first))
        self.assertEqual(accuracy(module, self.test, 0.5, 0.5), run.summary["last"])
        self.assertTrue(self.folder.joinpath("own.network.pt").exists())
        self.refused(lambda: winnow.Run("own", torch.nn.Linear(2, 2)).model(), "differ in '0.bias'", kind="run")

    def test_one_that_cannot_be_scripted_is_traced(self):
        class Odd(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.head = torch.nn.Linear(256, 4)

            def forward(self, x, *rest, **named):  # TorchScript has no such parameters
                return self.head(x.flatten(1))

        self.assertEqual(self.go(Odd(), rounds=1).summary["rounds"], 1)

    def test_one_that_can_be_neither_is_refused_with_both_reasons(self):
        class Broken(torch.nn.Module):
            def forward(self, x, *rest):
                raise RuntimeError("out of order")

        self.refused(lambda: self.go(Broken()), "the module Broken can neither be scripted (", "nor traced (out of",
                     kind="experiment", hint="docs/own-model.md")


def accuracy(model, test, mean=None, std=None):
    mean = model.mean if mean is None else mean
    std = model.std if std is None else std
    x = torch.as_tensor(test[0]).unsqueeze(1) / 255
    with torch.no_grad():
        logits = model((x - torch.as_tensor(mean).view(-1, 1, 1)) / torch.as_tensor(std).view(-1, 1, 1))
    return float((logits.argmax(1) == torch.as_tensor(test[1])).double().mean())


class Stopping(Case):
    CODE = textwrap.dedent("""
        import json, sys
        import winnow
        tree = json.load(open("tree.json"))
        try:
            winnow.run(tree, out="stopped")
        except KeyboardInterrupt as stop:
            print(stop)
        print(winnow.resume("stopped", progress=False).hash if len(sys.argv) > 1 else "")
    """)

    def test_ctrl_c_saves_the_run_and_resume_ends_in_the_same_bits(self):
        long = tree(rounds=30, checkpoint_every=1000)
        whole = self.run_quietly(long, out="whole").hash
        self.folder.joinpath("tree.json").write_text(json.dumps(long))
        child = subprocess.Popen([sys.executable, "-c", self.CODE, "resume"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        events = self.folder / "stopped" / "events.jsonl"
        while not (events.exists() and events.read_text().count('"round"') > 2):
            self.assertIsNone(child.poll(), "it ended before it could be stopped")
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out = child.communicate()[0].splitlines()
        self.assertEqual(out, ["the run is saved; continue it with winnow.resume('stopped')", whole])
        self.assertIn('"resumed"', events.read_text())

    def test_what_a_signal_handler_raises_comes_out_and_the_run_is_saved(self):
        def ring(number, frame):
            raise TimeoutError("time is up")

        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with self.assertRaisesRegex(TimeoutError, "time is up"):
            self.run_quietly(tree(rounds=100000, checkpoint_every=100000), out="stopped")
        self.assertTrue(list(self.folder.glob("stopped/checkpoint/*.safetensors")))


class Sweeps(Case):
    def test_a_grid_is_played_and_tabulated(self):
        grid = tree(name="grid", rounds=2, grid={"method.name": ["fedavg", "median"], "seed": [1, 2]})
        sweep = winnow.sweep(grid, progress=False)
        self.assertEqual(sorted(sweep.runs), ["fedavg_s1", "fedavg_s2", "median_s1", "median_s2"])
        self.assertEqual((str(sweep.path), sweep.failures), ("runs/grid", []))
        table = sweep.table("best")
        self.assertEqual(list(table["row"]), ["fedavg", "median"])
        self.assertEqual((list(table["runs"]), list(table["column"])), ([2, 2], ["", ""]))
        best = [100 * sweep.runs[f"fedavg_s{seed}"].summary["best"] for seed in (1, 2)]
        self.assertAlmostEqual(table["mean"].iloc[0], sum(best) / 2, places=5)
        self.assertEqual(sweep.runs["fedavg_s2"].hash, self.run_quietly(tree(rounds=2), seed=2).hash)
        self.assertEqual(list(winnow.table([sweep.runs["fedavg_s1"], sweep.runs["median_s1"]])["metric"]),
                         ["best", "last"] * 2)
        # What is there is not played again.
        stamp = os.stat(sweep.path / "fedavg_s1" / "summary.json").st_mtime_ns
        self.assertEqual(len(winnow.sweep(grid, progress=False).runs), 4)
        self.assertEqual(os.stat(sweep.path / "fedavg_s1" / "summary.json").st_mtime_ns, stamp)
        self.assertIn("median", sweep.report().html)

    def test_a_run_that_fails_is_named(self):
        sweep = winnow.sweep(tree(name="grid", rounds=1, grid={"data.name": ["synthetic", "cifar100"]}),
                             progress=False)
        self.assertEqual(len(sweep.runs), 1)
        self.assertIn("data set 'cifar100' not found", sweep.failures[0]["words"])
        self.refused(lambda: winnow.sweep(tree(), progress=False), "there is nothing to sweep over")
        self.refused(lambda: winnow.sweep(tree(grid={"seed": [1]}), seed=3, progress=False), "seed is an axis")


class Lists(Case):
    def test_methods_and_descriptions(self):
        methods = winnow.methods()
        self.assertIn("fedcorr", list(methods["name"]))
        described = winnow.describe("fedprox")
        self.assertEqual((described["kind"], list(described["parameters"]["name"])), ("method", ["mu", "weighting"]))
        self.refused(lambda: winnow.describe("fedprx"), "nothing is called 'fedprx'", hint="did you mean 'fedprox'?")

    def test_progress_is_a_line(self):
        for progress in (True, False):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                winnow.run(tree(rounds=2), progress=progress)
            if progress:
                self.assertIn("small: fedavg on synthetic, 4 clients, 2 rounds", said.getvalue())
                self.assertRegex(said.getvalue(), r"round 2/2  accuracy [\d.]+%  best [\d.]+%\n")
            else:
                self.assertEqual(said.getvalue(), "")


class Audits(Case):
    def test_wrong_labels_are_found(self):
        x, y = squares(300, 1)
        wrong = numpy.arange(0, 300, 20)
        given = y.copy()
        given[wrong] = (given[wrong] + 1) % 4
        clients = numpy.arange(300) % 6
        frame = winnow.audit(x, given, clients, rounds=6, folds=2, out="audit", progress=False,
                             train={"lr": 0.1, "batch_size": 10, "epochs": 4})
        self.assertGreater(len(frame), 280)  # without what was planted
        found = set(frame["sample"][frame["is_label_issue"]])
        self.assertGreaterEqual(len(found & set(wrong)), 12)
        self.assertLessEqual(len(found - set(wrong)), 5)
        self.assertLess(abs(frame.attrs["audit"]["noise_rate"] - 0.05), 0.05)
        self.assertEqual(winnow.audit(x[:60], given[:60], clients[:60], by="clients", rounds=1, folds=2,
                                      plant=0, progress=False)["samples"].sum(), 60)
        for name in ("audit.html", "audit.csv", "samples.csv", "relabel.csv", "audit.json"):
            self.assertTrue((self.folder / "audit" / name).stat().st_size > 0)
        self.refused(lambda: winnow.audit(x, given, clients, out="audit", progress=False), "audit already holds an audit",
                     hint="force=True")
        self.refused(lambda: winnow.audit(x, given, clients, by="class"), "by = 'class'")


if __name__ == "__main__":
    unittest.main()
