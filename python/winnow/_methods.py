"""Methods whose rule is a Python function."""
import inspect

from . import _core
from ._errors import Error

_added = {}  # by name


def added():
    return list(_added.values())


class Upload:
    """What a client sent in a round. Unpacks as (client, samples, model).

    client   its number
    samples  how many it has
    model    its model: a dict from names to tensors, yours to change
    weight   what it weighs in winnow.mean(): its samples, or what the method's weights function says
    """

    __slots__ = ("client", "samples", "model", "weight", "_layout")

    def __init__(self, client, samples, weight, model, layout):
        self.client = client
        self.samples = int(samples)
        self.weight = weight
        self.model = model
        self._layout = layout

    def __iter__(self):
        return iter((self.client, self.samples, self.model))

    def __repr__(self):
        return f"Upload(client={self.client}, samples={self.samples}, weight={self.weight:g})"


def mean(uploads, weights=None):
    """The weighted mean of the models of uploads, as FedAvg forms it, bit for bit.

    weights   a number for each upload; without, Upload.weight
    """
    uploads = list(uploads)
    if not uploads:
        raise Error("mean: there are no uploads")
    weights = [upload.weight for upload in uploads] if weights is None else [float(weight) for weight in weights]
    if len(weights) != len(uploads):
        raise Error(f"mean: {len(weights)} weights, but {len(uploads)} uploads")
    return _core.mean(uploads[0]._layout, [upload.model for upload in uploads], weights)


class Method:
    """A method that winnow.method() has made. It can still be called as the function it was."""

    def __init__(self, function, name, summary, select, weights):
        self.function = function
        self.name = name
        self.summary = summary
        self.select = select
        self.weights = weights
        self.parameters = {}
        self._takes = set()
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._read_signature()

    def _read_signature(self):
        parameters = list(inspect.signature(self.function).parameters.values())
        if len(parameters) < 2:
            raise Error(f"method {self.name}: expected a function of (global_model, uploads)")
        for parameter in parameters[2:]:
            if parameter.name in ("state", "round"):
                self._takes.add(parameter.name)
            elif type(parameter.default) in (bool, int, float, str):
                self.parameters[parameter.name] = parameter.default
            else:
                raise Error(f"method {self.name}: the parameter {parameter.name} needs a default that is a number, "
                            "a text or a truth value",
                            hint="only state and round have none; a parameter is set by method.NAME of an experiment")

    def __call__(self, *arguments, **named):
        return self.function(*arguments, **named)

    def __repr__(self):
        return f"<winnow method {self.name}>"

    # Called by the library.
    def choose(self, clients, count, round):
        return [int(client) for client in self.select(clients, count, round)]

    def play(self, global_model, uploads, layout, round, state, parameters):
        uploads = [Upload(*upload, layout) for upload in uploads]
        if self.weights is not None:
            weights = [float(weight) for weight in self.weights(global_model, uploads)]
            if len(weights) != len(uploads):
                raise Error(f"method {self.name}: {len(weights)} weights, but {len(uploads)} uploads", "run")
            for upload, weight in zip(uploads, weights):
                upload.weight = weight
        named = dict(parameters)
        if "state" in self._takes:
            named["state"] = state
        if "round" in self._takes:
            named["round"] = round
        return self.function(global_model, uploads, **named)


def method(function=None, *, name=None, select=None, weights=None):
    """Makes a function the rule of a method, which experiments choose by its name.

        @winnow.method
        def slow(global_model, uploads, *, pace=0.5):
            target = winnow.mean(uploads)
            return {name: old + pace * (target[name] - old) for name, old in global_model.items()}

        winnow.run("experiment.toml", method={"name": "slow", "pace": 0.2})

    The function gets the model that was sent out, a dict from names to tensors, and the uploads of the round, and
    returns the next model. Further parameters have defaults and are set by the experiment; one called `state` is
    a dict that is kept from round to round and stored in checkpoints (tensors, and what JSON has), one called
    `round` the number of the round from 1.

    select    function of (clients, count, round) that returns who takes part; without, FedAvg's draw
    weights   function of (global_model, uploads) that returns what every upload weighs in winnow.mean()
    name      another name than the function's
    """
    if function is None:
        return lambda given: method(given, name=name, select=select, weights=weights)
    name = name or function.__name__
    if any(known["name"] == name for known in _core.methods([])):
        raise Error(f"there is a method '{name}' already", hint="choose another name")
    summary = (inspect.getdoc(function) or "a rule in Python").strip().splitlines()[0]
    _added[name] = Method(function, name, summary, select, weights)
    return _added[name]
