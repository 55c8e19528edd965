"""Trains and quantises the digits network: ``python -m rt.models.train_digits``.

A 64-32-10 network on the handwritten digits of scikit-learn, in numpy alone, with full-batch
Adam; then int8 weights with one scale for each output channel. Two thirds of the images, drawn
by a seeded shuffle, are trained on; the rest is kept for the accuracy that is reported.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from .digits import WEIGHTS_FILE, images_and_labels, split

__all__ = ["main", "train"]

SEED = 7
STEPS = 400
RATE = 0.01
DECAY = 2e-4
HIDDEN = 32

Floats = npt.NDArray[np.float64]


def train() -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of the weights file: int8 weights, int32 biases, multipliers and shifts."""
    images, labels = images_and_labels()
    seen, _ = split(len(images))
    x = images[seen].astype(np.float64) / 16
    wanted = np.eye(10)[labels[seen]]
    w1, b1, w2, b2 = _fit(x, wanted)

    # Hidden activations use 0 … 127 for the range that the training images reach.
    hidden_scale = np.maximum(x @ w1 + b1, 0).max() / 127
    scale1 = np.abs(w1).max(axis=0) / 127
    scale2 = np.abs(w2).max() / 127
    to_hidden = scale1 / 16 / hidden_scale
    shift = 30 - np.floor(np.log2(to_hidden))
    return {
        "w1": np.rint(w1 / scale1).astype(np.int8),
        "b1": np.rint(b1 / (scale1 / 16)).astype(np.int32),
        "multiplier1": np.rint(to_hidden * 2.0**shift).astype(np.int32),
        "shift1": shift.astype(np.uint8),
        "w2": np.rint(w2 / scale2).astype(np.int8),
        "b2": np.rint(b2 / (scale2 * hidden_scale)).astype(np.int32),
    }


def _fit(x: Floats, wanted: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(SEED)
    parameters = [
        rng.normal(0, 0.15, (x.shape[1], HIDDEN)), np.zeros(HIDDEN),
        rng.normal(0, 0.15, (HIDDEN, 10)), np.zeros(10),
    ]  # fmt: skip
    mean = [np.zeros_like(p) for p in parameters]
    square = [np.zeros_like(p) for p in parameters]
    for step in range(1, STEPS + 1):
        w1, b1, w2, b2 = parameters
        hidden = np.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        exponent = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = (exponent / exponent.sum(axis=1, keepdims=True) - wanted) / len(x)
        back = error @ w2.T * (hidden > 0)
        gradients = (x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0))
        for n, gradient in enumerate(gradients):
            gradient = gradient + DECAY * parameters[n]
            mean[n] = 0.9 * mean[n] + 0.1 * gradient
            square[n] = 0.999 * square[n] + 0.001 * gradient**2
            rate = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            parameters[n] = parameters[n] - rate * mean[n] / (np.sqrt(square[n]) + 1e-8)
    w1, b1, w2, b2 = parameters
    return w1, b1, w2, b2


def main() -> None:
    """Writes the weights file beside this one and prints the accuracy of both parts."""
    from .digits import DigitsNetwork

    np.savez_compressed(WEIGHTS_FILE, **train())  # type: ignore[arg-type]
    network = DigitsNetwork.load(WEIGHTS_FILE)
    images, labels = images_and_labels()
    for name, part in zip(("trained on", "kept"), split(len(images)), strict=True):
        accuracy = np.mean(network.reference(images[part]).predictions == labels[part])
        print(f"{name}: {len(part)} images, {accuracy:.2%} right")
    print(f"wrote {Path(WEIGHTS_FILE).name}, {WEIGHTS_FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
