"""Arrays as data, and how the package starts."""
import unittest

from support import Case, squares, tree

import winnow
import numpy
import torch


class Data(Case):
    def setUp(self):
        super().setUp()
        self.data, self.test = squares(240, 1), squares(80, 2)

    def go(self, data=None, test=None, **more):
        return self.run_quietly(tree(rounds=1), data=data or self.data, test=test or self.test, **more)

    def command_line(self, name, *more, **arrays):
        numpy.savez(self.folder / "arrays.npz", **arrays)
        settings = tree(rounds=1)
        lines = [f'name = "small"\nrounds = 1\n[data]\nname = "{name}"\npath = "arrays.npz"']
        for table in ("federation", "model", "train"):
            lines.append(f"[{table}]")
            lines += [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
                      for key, value in settings[table].items() if more == () or key not in more]
        self.folder.joinpath("arrays.toml").write_text("\n".join(lines) + "\n")
        return self.command_line_hash("arrays.toml")

    def test_every_form_of_the_same_images_gives_the_model_of_the_command_line(self):
        (x, y), (tx, ty) = self.data, self.test
        expected = self.command_line("npz", train_images=x, train_labels=y, test_images=tx, test_labels=ty)
        forms = {"bytes": (x, y), "channels last": (x[..., None], y), "channels first": (x[:, None], y[:, None]),
                 "floats": ((x / 255).astype(numpy.float32), y.astype(numpy.uint8)),
                 "tensors": (torch.as_tensor(x), torch.as_tensor(y)),
                 "backwards": (x[::-1], y[::-1])}
        for name, data in forms.items():
            with self.subTest(name):
                if name == "backwards":
                    self.assertNotEqual(self.go(data).hash, expected)
                else:
                    self.assertEqual(self.go(data).hash, expected)

    def test_a_module_gives_the_model_of_the_command_line(self):
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
        run = self.go(model=module, out="module")
        (x, y), (tx, ty) = self.data, self.test
        numpy.savez(self.folder / "arrays.npz", train_images=x, train_labels=y, test_images=tx, test_labels=ty)
        self.folder.joinpath("module.toml").write_text(
            'rounds = 1\n[data]\nname = "npz"\npath = "arrays.npz"\n[federation]\nclients = 4\nfraction = 0.75\n'
            '[model]\nname = "torchscript"\npath = "module.network.pt"\n'
            '[train]\nepochs = 1\nbatch_size = 20\nlr = 0.05\n')
        self.assertEqual(run.hash, self.command_line_hash("module.toml"))

    def test_tensors_cross_without_a_copy(self):
        # Both sides have the same memory.
        x, y = torch.as_tensor(self.data[0])[:, None].contiguous(), torch.as_tensor(self.data[1]).long()
        self.assertEqual(winnow._arrays._images(x, "x").data_ptr(), x.data_ptr())
        self.assertEqual(winnow._arrays._images(self.data[0], "x").data_ptr(),
                         self.data[0].__array_interface__["data"][0])
        self.assertEqual(winnow._core.Arrays(x, y, [], None, None).images.data_ptr(), x.data_ptr())

    def test_colours(self):
        colours = numpy.random.default_rng(3).integers(0, 255, (60, 16, 16, 3), dtype=numpy.uint8)
        labels = numpy.arange(60) % 3
        last = self.go((colours, labels), (colours, labels)).hash
        first = self.go((colours.transpose(0, 3, 1, 2), labels), (torch.as_tensor(colours), labels)).hash
        self.assertEqual(last, first)

    def test_clients_and_the_draw_of_test_samples_are_those_of_the_command_line(self):
        x, y = self.data
        clients = numpy.array(["north", "south", "east"])[numpy.arange(len(x)) % 3]
        run = self.run_quietly(tree(rounds=1, federation={"fraction": 1.0}), data=(x, y, clients))
        numpy.savez(self.folder / "split.npz", images=x, labels=y, clients=clients)
        self.folder.joinpath("split.toml").write_text(
            'rounds = 1\n[data]\nname = "clients"\npath = "split.npz"\n[federation]\nfraction = 1.0\n'
            '[model]\nname = "cnn2"\n[train]\nepochs = 1\nbatch_size = 20\nlr = 0.05\n')
        self.assertEqual(run.hash, self.command_line_hash("split.toml"))

    def test_noise_leaves_the_arrays_alone(self):
        x, y = self.data
        before = x.copy(), y.copy()
        noise = [{"name": "distortions", "kinds": ["gaussian_noise"]}, {"name": "symmetric", "rate": 0.5}]
        run = self.run_quietly(tree(rounds=1, noise=noise), data=(torch.as_tensor(x), y), test=self.test)
        self.assertTrue(run.summary["noise"]["distorted"] > 0 and run.summary["noise"]["only_injected"])
        self.assertTrue(numpy.array_equal(x, before[0]) and numpy.array_equal(y, before[1]))

    def test_a_run_goes_on_with_its_own_data_only(self):
        self.refused(lambda: self.run_quietly(tree(), data=self.data, test=self.test, out="a", method="stops"),
                     "enough")
        self.refused(lambda: winnow.resume("a", progress=False), "the data of this run came out of a Python program",
                     kind="data", hint="winnow.resume(path, data=(x, y)")
        self.refused(lambda: winnow.resume("a", data=self.test, test=self.test, progress=False),
                     "the data is not what the run was started with")
        winnow._methods._added["stops"].function = lambda model, uploads: model
        run = winnow.resume("a", data=self.data, test=self.test, progress=False)
        self.assertEqual(run.summary["rounds"], 3)

    def test_wrong_arrays_are_refused_by_name(self):
        x, y = self.data
        refused = {"data: expected (images, labels)": (x,),
                   "data images: shape (256,), expected (n, h, w)": (x[0].ravel(), y),
                   "data images: shape (4, 20, 2, 20) has 20 channels": (numpy.zeros((4, 20, 2, 20), "u1"), y[:4]),
                   "data images: values outside of 0 to 1": (x.astype(float), y),
                   "data images: images of torch.int32": (x.astype("i4"), y),
                   "data images: an array of <U1": (numpy.array(["a"]), y),
                   "data labels: 240 labels, but 239 images": (x[1:], y),
                   "data labels: shape (240,) of torch.float64, expected one whole number": (x, y.astype(float)),
                   "data images: there are no images": (x[:0], y[:0]),
                   "clients: 2 of them, but 240 images": (x, y, [1, 2]),
                   "label": (x, y - 1)}
        for words, data in refused.items():
            with self.subTest(words):
                self.refused(lambda: self.go(data), words, kind="usage" if len(data) == 1 else "data")
        self.refused(lambda: self.run_quietly(test=self.test), "test is given, but data is not")
        self.refused(lambda: self.go((x, y, [0] * 240), federation={"clients": 3}),
                     "federation.clients = 3, but the data has 1 clients")
        self.refused(lambda: self.go((x, y, [0] * 240), federation={"partition": "iid"}),
                     "federation.partition: the data says what each client holds", kind="experiment")
        self.refused(lambda: self.run_quietly(data="synthetic", test=self.test), "brings its own test part")


@winnow.method
def stops(global_model, uploads):
    raise winnow.Error("enough")


class Start(Case):
    RUN = f"import json, warnings\n%s\nprint(winnow.run({tree(rounds=1)!r}, progress=False).summary['arithmetic'])"

    @unittest.skipUnless("avx2" in open("/proc/cpuinfo").read(), "this CPU has no AVX2")
    def test_winnow_first_fixes_the_kernels(self):
        done = self.python(self.RUN % "import winnow", WINNOW_ARITHMETIC="avx2")
        self.assertEqual((done.stdout, done.stderr), ("avx2\n", ""))
        self.folder.joinpath("e.toml").write_text(
            'rounds = 1\n[data]\nname = "synthetic"\nsamples = 240\ntest_samples = 100\nsize = 16\n[federation]\nclients = 4\n'
            'fraction = 0.75\n[model]\nname = "cnn2"\n[train]\nepochs = 1\nbatch_size = 20\nlr = 0.05\n')
        self.assertEqual(winnow.Run("runs/small").hash, self.command_line_hash("e.toml", "--arithmetic", "avx2"))

    def test_torch_first_is_a_warning_that_says_what_to_do(self):
        done = self.python(self.RUN % "import torch\nimport winnow")
        self.assertEqual(done.stdout, "unnamed\n")
        self.assertEqual(done.stderr.count("Warning"), 1)
        self.assertIn("import winnow before torch and numpy, or start Python with", done.stderr)
        self.assertIn("OPENBLAS_CORETYPE=", done.stderr)

    def test_an_unknown_arithmetic_is_an_error(self):
        done = self.python("import winnow", WINNOW_ARITHMETIC="avx3")
        self.assertIn("winnow.Error: unknown arithmetic 'avx3'", done.stderr)

    def test_without_pandas_a_frame_is_a_dict_of_columns(self):
        done = self.python("import sys\nsys.modules['pandas'] = None\nimport winnow\n"
                           f"print(winnow.run({tree(rounds=2)!r}, progress=False).metrics['round'])")
        self.assertEqual((done.stdout, done.stderr), ("[1, 2]\n", ""))


if __name__ == "__main__":
    unittest.main()
