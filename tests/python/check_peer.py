"""The peer of `winnow bench` with captured steps, on a CPU: a stand-in for CUDA's graphs takes the captured step again
where a graph would be replayed. What it trains must be what the plain loop trains."""
import contextlib
import copy
import importlib.util
import pathlib
import subprocess
import sys
import types

import torch
from torch.utils.data import DataLoader

path = pathlib.Path(__file__).resolve().parents[2] / "bench/peer/fedavg.py"
spec = importlib.util.spec_from_file_location("fedavg", path)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)

refused = subprocess.run([sys.executable, path, "--graph"], capture_output=True, text=True)
assert refused.returncode == 1
assert refused.stderr == "fedavg.py: --graph needs --device cuda and a GPU that torch can use\n", refused.stderr


class Stream:
    def __init__(self, _device=None):
        pass

    def wait_stream(self, _other):
        pass


class Graph:
    def replay(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.step()


@contextlib.contextmanager
def graph(target):
    around = sys._getframe(2).f_locals  # where the step is captured
    target.step, target.optimizer = around["step"], around["optimizer"]
    yield


torch.cuda.Stream, torch.cuda.CUDAGraph, torch.cuda.graph = Stream, Graph, graph
torch.cuda.current_stream = Stream
torch.cuda.stream = lambda _stream: contextlib.nullcontext()

torch.manual_seed(1)
args = types.SimpleNamespace(model="lenet5", channels=1, size=28, batch=4, samples_per_client=6, epochs=2, lr=0.1,
                             device=torch.device("cpu"), bf16=False, graph=True)
model = peer.make_model(args)
state = copy.deepcopy(model.state_dict())
captured = peer.capture_steps(model, args)
assert {count: len(step.images) for count, step in captured.items()} == {4: 4, 2: 2}
sets = [peer.make_set(6, args) for _ in range(3)]
loaders = [DataLoader(each, batch_size=4) for each in sets]
_, steps = peer.play_round(state, model, loaders, [0, 2], captured, args)
assert steps == 2 * 2 * 2, steps

args.batch, args.epochs = 6, 1  # one step on all samples, whose order then hardly matters
peer.replay_client(model, state, loaders[0], peer.capture_steps(model, args), args)
replayed = copy.deepcopy(model.state_dict())
peer.train_client(model, state, DataLoader(sets[0], batch_size=6), args)
for name, value in model.state_dict().items():
    assert torch.allclose(value, replayed[name], atol=1e-6), name
    assert not torch.equal(value, state[name]), name
print("captured steps train as the plain loop does")
