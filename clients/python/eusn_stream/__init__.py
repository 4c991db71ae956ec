"""Publish samples to an eusn-stream stage, read its predictions, and label them."""

from .columns import Prediction
from .messages import Label, integrity

__all__ = ["Client", "Label", "Prediction", "connect", "integrity"]


def __getattr__(name: str) -> object:  # what needs pyarrow and nats-py is loaded when it is used
    if name in ("Client", "connect"):
        from . import client

        return getattr(client, name)
    raise AttributeError(name)
