"""Networks of the user's own: nn.Modules on their way into a run and back."""
import copy

import torch

from ._errors import Error


def scripted(module, images):
    """The module as TorchScript; `images` are some for torch.jit.trace, or None."""
    was = module.training
    try:
        return torch.jit.script(copy.deepcopy(module).train())
    except Exception as error:  # of many types, for the many things that TorchScript does not have
        why = str(error).strip().splitlines()
    try:
        if images is None:
            raise ValueError("there are no images to trace it with")
        with torch.no_grad():
            return torch.jit.trace(copy.deepcopy(module).train(), images)
    except Exception as error:
        also = str(error).strip().splitlines()
        raise Error(f"model: the module {type(module).__name__} can neither be scripted "
                    f"({why[0] if why else 'for no reason given'}) nor traced "
                    f"({also[0] if also else 'for no reason given'})", "experiment",
                    "torch.jit.script(module) shows where; docs/own-model.md says what a network needs") from None
    finally:
        module.train(was)


def put_into(module, path):
    """The module with the weights of a run's model.pt, in eval mode."""
    trained = torch.jit.load(str(path), map_location="cpu").state_dict()
    own = module.state_dict()
    missing = sorted(set(trained) ^ set(own))
    if missing:
        raise Error(f"model: the module and the run differ in '{missing[0]}'", "run",
                    "give the module that the run was started with")
    module.load_state_dict(trained)
    return module.eval()
