"""winnow.audit: its warnings, the names of clients, and the words of its errors."""
import unittest
import warnings

from support import Case, squares

import winnow
import numpy
import torch


class Audit(Case):
    def setUp(self):
        super().setUp()
        self.x, self.y = squares(240, 1)

    def audit(self, clients=None, count=240, **more):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = winnow.audit(self.x[:count], self.y[:count], clients,
                                 **{"rounds": 1, "folds": 2, "plant": 0, "lanes": 1, "progress": False, **more})
        self.warned = [str(one.message) for one in caught if one.filename == __file__]
        return frame

    def test_what_it_warns_of_are_warnings_of_python(self):
        frame = self.audit(["a", "b", "test", "c"] * 60)
        self.assertTrue(any("seems to include a test split: test" in words for words in self.warned), self.warned)
        self.assertEqual(len(self.warned), len(frame.attrs["audit"]["warnings"]))
        # Models that have learnt nothing: what to do about it is said in the words of Python.
        self.audit(["a", "b", "c", "d"] * 60, plant=0.1, train={"lr": 1e-6})
        self.assertTrue(any("raise rounds= or train.epochs" in words for words in self.warned), self.warned)

    def test_clients_that_are_texts_stay_texts(self):
        frame = self.audit(["01", "1", "1e3", "nan"] * 60)
        self.assertEqual(sorted(set(frame["client"])), ["01", "1", "1e3", "nan"])
        self.assertEqual(self.audit(numpy.array(["01", "1"] * 120), by="clients")["name"].tolist(), ["1", "01"])

    def test_clients_that_are_numbers_stay_numbers(self):
        for clients in ([0, 1, 2, 10] * 60, numpy.array([0, 1, 2, 10] * 60), torch.tensor([0, 1, 2, 10] * 60)):
            frame = self.audit(clients)
            self.assertEqual(sorted(set(frame["client"].tolist())), [0, 1, 2, 10])
        self.assertEqual(set(self.audit().client), {0})

    def test_its_errors_have_the_words_of_python(self):
        self.refused(lambda: self.audit(count=4, folds=5), "samples", hint="lower folds=, or audit more data")
        self.assertEqual(str(winnow.Error("raise --rounds", hint="or --folds")), "raise rounds=\n  or folds=")


if __name__ == "__main__":
    unittest.main()
