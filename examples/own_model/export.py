#!/usr/bin/env python3
"""A small network with `features` and `head`, written as TorchScript: export.py PATH."""
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes: int = 10):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 5), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(16 * 4 * 4, 64), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(64, classes)

    @torch.jit.export
    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


torch.manual_seed(1)
torch.jit.script(Net()).save(sys.argv[1])
