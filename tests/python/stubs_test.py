"""The stubs say what the package has: names, parameters, defaults and attributes."""
import ast
import importlib.machinery
import importlib.util
import inspect
import pathlib
import tempfile
import textwrap
import typing
import unittest
import unittest.mock

import winnow

STUB = pathlib.Path(winnow.__file__).with_name("__init__.pyi")


def load(file):
    """A stub as a module: it is Python whose functions do nothing."""
    loader = importlib.machinery.SourceFileLoader("winnow_stub", str(file))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("winnow_stub", loader))
    forms = {}  # of overloaded functions

    def overload(function):
        forms.setdefault(function.__name__, []).append(function)
        return function

    with unittest.mock.patch("typing.overload", overload):
        loader.exec_module(module)
    module._forms = forms
    return module


def parameters(function):
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


def differences(stub, real):
    """What one has and the other not, in words."""
    found = []
    own = {name for name, value in vars(stub).items() if not name.startswith("_") and
           getattr(value, "__module__", None) == stub.__name__}
    for name in sorted(own ^ (set(real.__all__) - {"__version__"})):
        found.append(f"{name} is only in {'the stub' if name in own else 'the package'}")
    for name in sorted(own & set(real.__all__)):
        one, other = getattr(stub, name), getattr(real, name)
        if inspect.isclass(other):
            found += class_differences(name, one, other)
        else:
            # Of the forms of an overloaded function only the last has all defaults.
            for form in stub._forms.get(name, []):
                if [part[:2] for part in parameters(form)] != [part[:2] for part in parameters(other)]:
                    found.append(f"{name}{inspect.signature(form)}")
            if parameters(one) != parameters(other):
                found.append(f"{name}: {parameters(one)} is not {parameters(other)}")
    return found


def attributes_set(kind):
    """What the functions of a class set on self."""
    texts = [inspect.getsource(one) for one in vars(kind).values() if inspect.isfunction(one)]
    return {node.attr for text in texts for node in ast.walk(ast.parse(textwrap.dedent(text)))
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and
            isinstance(node.value, ast.Name) and node.value.id == "self" and not node.attr.startswith("_")}


def class_differences(name, stub, real):
    found = []
    public = lambda names: {one for one in names if not one.startswith("_")}
    told = public(vars(stub)) | public(vars(stub).get("__annotations__", {}))
    has = public(vars(real)) | attributes_set(real)
    found += [f"{name}.{one} is only in {'the stub' if one in told else 'the package'}" for one in sorted(told ^ has)]
    for one in sorted(public(vars(stub)) & public(vars(real)) | {"__init__"}):
        ours, theirs = getattr(stub, one), getattr(real, one)
        if isinstance(theirs, property) != isinstance(ours, property):
            found.append(f"{name}.{one}: one of the two is a property")
        elif inspect.isfunction(theirs) and parameters(ours) != parameters(theirs):
            found.append(f"{name}.{one}{inspect.signature(ours)}")
    return found


class Stubs(unittest.TestCase):
    def test_they_say_what_the_package_has(self):
        self.assertEqual(differences(load(STUB), winnow), [])

    def test_a_difference_is_found(self):
        text = STUB.read_text(encoding="utf-8")
        changes = {"lanes: int = 0": "lanes: int = 1", "def describe(name: str)": "def describe(what: str)",
                   "def methods()": "def methodes()", "    def hash(self)": "    def digest(self)",
                   "failures: list": "failed: list", "smoke: bool = False,": "",
                   "    @property\n    def metrics": "    def metrics",
                   "def save(self, path: _Path)": "def save(self, path: _Path, mode: str)"}
        for old, new in changes.items():
            self.assertIn(old, text)
            file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "changed.pyi"
            file.write_text(text.replace(old, new), encoding="utf-8")
            self.assertNotEqual(differences(load(file), winnow), [], old)

    def test_functions_say_what_they_take_and_return(self):
        stub = load(STUB)
        for name in ("run", "resume", "sweep", "table", "report", "audit", "mean", "methods", "describe"):
            function = getattr(stub, name)
            self.assertEqual(set(typing.get_type_hints(function)) - {"return"},
                             set(inspect.signature(function).parameters), name)
            self.assertIn("return", typing.get_type_hints(function))
        self.assertEqual(typing.get_type_hints(stub.run)["return"], stub.Run)

    def test_clients_are_also_arrays_and_tensors(self):
        stub = load(STUB)
        for kind in typing.get_args(stub._Array):
            self.assertIn(kind, typing.get_args(stub._Clients))

    def test_they_are_installed_with_the_package(self):
        self.assertTrue(STUB.with_name("py.typed").exists())


if __name__ == "__main__":
    unittest.main()
