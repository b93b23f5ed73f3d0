#!/usr/bin/env python3
"""Federated averaging as a plain PyTorch loop: what `winnow bench` measures Winnow against.

Clients are trained one after another, each with its own DataLoader over tensors in memory. Images and
labels are random, since only the speed matters. One round warms up, then whole rounds are measured.
Prints one line of JSON. Works with torch 1.13 and newer.

With --graph a training step is captured once as a CUDA graph, which is replayed for every batch of every
client; batches are gathered on the GPU into the fixed tensors that the graph reads, without a DataLoader.

  python3 bench/peer/fedavg.py --job lenet5-b10 --seconds 5
  python3 bench/peer/fedavg.py --job cnn4-b10 --device cuda --graph
  python3 bench/peer/fedavg.py --model cnn2 --clients 100 --samples-per-client 50 --threads 2
"""
import argparse
import contextlib
import copy
import json
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10

# model, channels, size, batch, clients, samples per client, cohort, epochs, lr; as `winnow bench --list`
JOBS = {
    "lenet5-b10": ("lenet5", 1, 28, 10, 50, 600, 10, 1, 0.01),
    "cnn4-b10": ("cnn4", 3, 32, 10, 100, 500, 10, 1, 0.01),
    "cnn4-b50": ("cnn4", 3, 32, 50, 100, 500, 10, 1, 0.01),
    "resnet18-b10": ("resnet18", 3, 32, 10, 20, 200, 10, 1, 0.01),
    "vit_tiny-b10": ("vit_tiny", 3, 32, 10, 20, 100, 10, 1, 0.01),
    "pfl": ("cnn2", 3, 32, 10, 1000, 50, 50, 1, 0.1),
    "clients-100": ("lenet5", 1, 28, 10, 100, 6, 100, 1, 0.01),
    "clients-1000": ("lenet5", 1, 28, 10, 1000, 6, 100, 1, 0.01),
    "clients-10000": ("lenet5", 1, 28, 10, 10000, 6, 100, 1, 0.01),
    "cnn-all-b50": ("lenet5", 3, 32, 50, 100, 500, 100, 5, 0.01),
}
KEYS = ("model", "channels", "size", "batch", "clients", "samples_per_client", "cohort", "epochs", "lr")


def lenet5(channels, size):
    padding = 2 if size == 28 else 0
    side = ((size + 2 * padding - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16 * side * side, 120), nn.ReLU(inplace=True),
        nn.Linear(120, 84), nn.ReLU(inplace=True),
        nn.Linear(84, CLASSES))


def cnn4(channels, size):
    layers = []
    for block in range(4):
        layers += [nn.Conv2d(channels if block == 0 else 64, 64, 3, padding=1),
                   nn.BatchNorm2d(64, track_running_stats=False),
                   nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * (size // 16) ** 2, CLASSES))


def cnn2(channels, size):
    side = (size - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(64 * side * side, 128), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(128, CLASSES))


class BasicBlock(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or width_in != width:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False),
                                            nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


def resnet18(channels, _size):
    layers = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True)]
    width_in = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [BasicBlock(width_in, width, stride), BasicBlock(width, width, 1)]
        width_in = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        parts = self.qkv(x).reshape(batch, tokens, 3, self.heads, dim // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            scale = (dim // self.heads) ** -0.5
            mixed = (q * scale @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, dim))


class VitBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VitTiny(nn.Module):
    side, patch, dim = 224, 16, 192

    def __init__(self, channels):
        super().__init__()
        tokens = (self.side // self.patch) ** 2 + 1
        self.cls_token = nn.Parameter(torch.zeros(1, 1, self.dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, tokens, self.dim))
        self.patch_embed = nn.Conv2d(channels, self.dim, self.patch, self.patch)
        self.blocks = nn.Sequential(*(VitBlock(self.dim, 3) for _ in range(12)))
        self.norm = nn.LayerNorm(self.dim, eps=1e-6)
        self.head = nn.Linear(self.dim, CLASSES)

    def forward(self, x):
        x = F.interpolate(x, size=(self.side, self.side), mode="bilinear", align_corners=False)
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x)[:, 0]))


def vit_tiny(channels, _size):
    return VitTiny(channels)


# How to make a network, and its parameters at a given shape: the same numbers as Winnow's.
MODELS = {
    "lenet5": (lenet5, {(1, 28): 61_706, (3, 32): 62_006}),
    "cnn4": (cnn4, {(3, 32): 115_658}),
    "cnn2": (cnn2, {(3, 32): 1_626_442}),
    "resnet18": (resnet18, {(3, 32): 11_173_962, (1, 28): 11_172_810}),
    "vit_tiny": (vit_tiny, {(3, 32): 5_526_346}),
}


def make_model(args):
    make, counts = MODELS[args.model]
    model = make(args.channels, args.size)
    count = sum(p.numel() for p in model.parameters())
    expected = counts.get((args.channels, args.size), count)
    assert count == expected, f"{args.model} has {count} parameters instead of {expected}"
    return model.to(args.device)


def make_set(count, args):
    images = torch.randn(count, args.channels, args.size, args.size, device=args.device)
    return TensorDataset(images, torch.randint(0, CLASSES, (count,), device=args.device))


def precision(args):
    if args.bf16:
        # A graph must not read copies of weights that were cast outside of it.
        return torch.autocast(args.device.type, dtype=torch.bfloat16, cache_enabled=not args.graph)
    return contextlib.nullcontext()


def train_client(model, state, loader, args):
    """Trains `model` from `state` and returns the steps it took."""
    model.load_state_dict(state)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    steps = 0
    for _ in range(args.epochs):
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            with precision(args):
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            steps += 1
    return steps


class CapturedStep:
    """A training step on `count` samples as a CUDA graph. It reads `images` and `labels`, and changes the weights of
    `model` where they lie; load_state_dict() writes to the same place, so one graph serves all clients."""

    def __init__(self, model, count, args):
        self.images = torch.zeros(count, args.channels, args.size, args.size, device=args.device)
        self.labels = torch.zeros(count, dtype=torch.long, device=args.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

        def step():
            with precision(args):
                loss = F.cross_entropy(model(self.images), self.labels)
            loss.backward()
            optimizer.step()

        # What is set up by the first steps must not be set up while capturing, which needs another stream than the
        # default one.
        model.train()
        side = torch.cuda.Stream(args.device)
        side.wait_stream(torch.cuda.current_stream(args.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=True)
                step()
        torch.cuda.current_stream(args.device).wait_stream(side)
        # Without gradients, the graph takes memory of its own for them and writes them anew with every replay.
        optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step()


def capture_steps(model, args):
    """The steps of a client by their number of samples: whole batches, and the last one if it is smaller."""
    counts = {min(args.batch, args.samples_per_client), args.samples_per_client % args.batch} - {0}
    return {count: CapturedStep(model, count, args) for count in sorted(counts, reverse=True)}


def replay_client(model, state, loader, captured, args):
    """The same as train_client(), by replaying captured steps."""
    model.load_state_dict(state)
    images, labels = loader.dataset.tensors
    steps = 0
    for _ in range(args.epochs):
        for chosen in torch.randperm(len(labels), device=args.device).split(args.batch):
            step = captured[len(chosen)]
            torch.index_select(images, 0, chosen, out=step.images)
            torch.index_select(labels, 0, chosen, out=step.labels)
            step.graph.replay()
            steps += 1
    return steps


def play_round(state, model, loaders, cohort, captured, args):
    """One round over the clients in `cohort`: the next global state and the steps of all of them."""
    total = sum(len(loaders[client].dataset) for client in cohort)
    average = {name: torch.zeros_like(value) for name, value in state.items()}
    steps = 0
    for client in cohort:
        if captured:
            steps += replay_client(model, state, loaders[client], captured, args)
        else:
            steps += train_client(model, state, loaders[client], args)
        weight = len(loaders[client].dataset) / total
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                average[name].add_(value, alpha=weight)
            else:
                average[name].copy_(value)
    return average, steps


@torch.no_grad()
def evaluate(model, state, loader, args):
    model.load_state_dict(state)
    model.eval()
    correct = 0
    for images, labels in loader:
        with precision(args):
            correct += (model(images).argmax(1) == labels).sum().item()
    return correct / len(loader.dataset)


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory_mb():
    """Peak resident memory. Not getrusage: its maximum includes that of the process before exec."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--job", choices=JOBS, help="values for all of the following, which override them")
    parser.add_argument("--model", choices=MODELS)
    for name in ("channels", "size", "batch", "clients", "samples-per-client", "cohort", "epochs"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--seconds", type=float, default=5.0, help="whole rounds for this long, at least one")
    parser.add_argument("--rounds", type=int, default=0, help="this many rounds instead")
    parser.add_argument("--eval-every", type=int, default=0, help="rounds between evaluations (0: none)")
    parser.add_argument("--test-samples", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (0: as torch chooses)")
    parser.add_argument("--tf32", action="store_true", help="let a GPU use TF32 for fp32 products")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--graph", action="store_true", help="replay a training step captured as a CUDA graph")
    args = parser.parse_args()
    if args.graph and (args.device.type != "cuda" or not torch.cuda.is_available()):
        sys.exit("fedavg.py: --graph needs --device cuda and a GPU that torch can use")
    for key, value in zip(KEYS, JOBS[args.job or "lenet5-b10"]):
        if getattr(args, key) is None:
            setattr(args, key, value)
    if args.cohort > args.clients:
        parser.error(f"--cohort {args.cohort}: there are only {args.clients} clients")
    return args


def main():
    args = parse_arguments()
    random.seed(1)
    torch.manual_seed(1)
    if args.threads > 0:
        torch.set_num_threads(args.threads)
    if args.device.type == "cuda":
        torch.cuda.set_device(args.device if args.device.index is not None else 0)
        torch.backends.cuda.matmul.allow_tf32 = args.tf32
        torch.backends.cudnn.allow_tf32 = args.tf32

    model = make_model(args)
    state = copy.deepcopy(model.state_dict())
    loaders = [DataLoader(make_set(args.samples_per_client, args), batch_size=args.batch, shuffle=True)
               for _ in range(args.clients)]
    captured = capture_steps(model, args) if args.graph else {}
    test = DataLoader(make_set(args.test_samples, args), batch_size=128) if args.eval_every else None

    rounds, steps = -1, 0  # the round that warms up does not count
    start = time.perf_counter()
    seconds = 0.0
    while rounds < 1 or (rounds < args.rounds if args.rounds else seconds < args.seconds):
        cohort = random.sample(range(args.clients), args.cohort)
        state, taken = play_round(state, model, loaders, cohort, captured, args)
        rounds += 1
        if test and rounds > 0 and rounds % args.eval_every == 0:
            evaluate(model, state, test, args)
        wait(args.device)
        if rounds == 0:
            start = time.perf_counter()
        else:
            steps += taken
            seconds = time.perf_counter() - start

    samples = rounds * args.cohort * args.samples_per_client * args.epochs
    print(json.dumps({
        "job": args.job, "model": args.model, "device": str(args.device), "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "precision": "bf16" if args.bf16 else "tf32" if args.tf32 else "fp32", "graph": args.graph,
        "rounds": rounds, "client_steps": steps, "samples": samples, "seconds": seconds,
        "steps_per_second": steps / seconds, "samples_per_second": samples / seconds,
        "peak_memory_mb": peak_memory_mb()}))


if __name__ == "__main__":
    main()
