"""Images and labels that a program has in memory."""
import numbers

import numpy
import torch

from . import _core
from ._errors import Error

_MOST_CHANNELS = 16
_AT_ONCE = 4096  # images whose floats become bytes together


def _shape(tensor):
    return str(tuple(tensor.shape))


def _channels_first(tensor, name, from_numpy):
    """[n, channels, height, width]."""
    if tensor.ndim == 3:
        return tensor.unsqueeze(1)
    if tensor.ndim != 4:
        raise Error(f"{name}: shape {_shape(tensor)}, expected (n, h, w), (n, h, w, c) or (n, c, h, w)", "data")
    first, last = tensor.shape[1] in (1, 3), tensor.shape[3] in (1, 3)
    if first == last:  # the shape does not say: then by custom
        first = not from_numpy
    if tensor.shape[1 if first else 3] > _MOST_CHANNELS:
        raise Error(f"{name}: shape {_shape(tensor)} has {tensor.shape[1 if first else 3]} channels, "
                    f"expected at most {_MOST_CHANNELS}", "data",
                    "NumPy arrays are taken as (n, h, w, c) and tensors as (n, c, h, w), unless 1 or 3 channels "
                    "are the other way round")
    return tensor if first else tensor.permute(0, 3, 1, 2)


def _bytes(tensor, name):
    """Floats from 0 to 1 as the nearest of 256 levels."""
    if tensor.dtype == torch.uint8:
        return tensor
    if not tensor.is_floating_point():
        raise Error(f"{name}: images of {tensor.dtype}, expected uint8 or floats from 0 to 1", "data")
    levels = torch.empty(tensor.shape, dtype=torch.uint8)
    for start in range(0, len(tensor), _AT_ONCE):
        values = tensor[start:start + _AT_ONCE].double()
        # Neither is a value that is not a number.
        if not bool(((values >= 0) & (values <= 1)).all()):
            raise Error(f"{name}: values outside of 0 to 1", "data",
                        "pass the images as they are before normalisation, as uint8 or as floats from 0 to 1")
        levels[start:start + _AT_ONCE] = torch.floor(values * 255 + 0.5).to(torch.uint8)
    return levels


def _tensor(value, name):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    array = numpy.asarray(value)
    if array.dtype.kind not in "uifb":
        raise Error(f"{name}: an array of {array.dtype}, expected numbers", "data")
    # Arrays that run backwards are none of torch's.
    return torch.as_tensor(numpy.ascontiguousarray(array))


def _images(value, name):
    tensor = _channels_first(_tensor(value, name), name, not isinstance(value, torch.Tensor))
    if len(tensor) == 0:
        raise Error(f"{name}: there are no images", "data")
    return _bytes(tensor, name).contiguous()


def _labels(value, name, count):
    tensor = _tensor(value, name)
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1 or tensor.is_floating_point():
        raise Error(f"{name}: shape {_shape(tensor)} of {tensor.dtype}, expected one whole number per image", "data")
    if len(tensor) != count:
        raise Error(f"{name}: {len(tensor)} labels, but {count} images", "data")
    return tensor.long()


def _client_list(value):
    return value.tolist() if hasattr(value, "tolist") else list(value)


def are_numbers(clients):
    """Whether clients are whole numbers rather than texts, which may look like some."""
    return all(isinstance(client, numbers.Integral) for client in _client_list(clients))


def _clients(value, count):
    names = [str(name) for name in _client_list(value)]
    if len(names) != count:
        raise Error(f"clients: {len(names)} of them, but {count} images", "data", "expected one for each image")
    return names


def arrays(data, test):
    """What _core takes; `data` is (x, y) or (x, y, clients), `test` is (x, y) or None."""
    if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
        raise Error("data: expected (images, labels) or (images, labels, clients)")
    if test is not None and (not isinstance(test, (tuple, list)) or len(test) != 2):
        raise Error("test: expected (images, labels)")
    images = _images(data[0], "data images")
    labels = _labels(data[1], "data labels", len(images))
    clients = _clients(data[2], len(images)) if len(data) == 3 and data[2] is not None else []
    if test is None:
        return _core.Arrays(images, labels, clients, None, None)
    test_images = _images(test[0], "test images")
    return _core.Arrays(images, labels, clients, test_images, _labels(test[1], "test labels", len(test_images)))
