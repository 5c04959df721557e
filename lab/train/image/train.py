"""Step 5: trains the generator. `python -m lab.train.image.train --minutes 30` goes on where the last run
stopped.

Flow matching that predicts the clean picture: x_t = (1 - t) noise + t picture, the loss is the mean squared
error of the picture. A tenth of the concepts and a third of the styles are left out of what is asked, for
guidance and for `any style`. Everything is kept every two minutes in runs/NAME.pt (network, average,
optimiser, step), and a line of the log is written to runs/NAME.jsonl. Takes a GPU where there is one; on a
CPU it computes in bfloat16.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lab.train.image import art, latents
from lab.train.image.concepts import concepts
from lab.train.image.network import Generator
from lab.train.image.places import work
from torch import Tensor
from torch.nn import functional

_AVERAGE = 0.998
_NO_CONCEPT, _NO_STYLE = 0.1, 0.3
_NOISY = -0.6
"""The middle of the logit of t: below 0 the net sees more of the noisy end, where it must know what to
draw."""
_LOG_EVERY, _KEEP_EVERY_S = 100, 120.0


@dataclass(frozen=True)
class Plan:
    """What a run does; kept with its results."""

    name: str
    steps: int
    batch: int
    rate: float
    seed: int


class Training:
    """A run: its pictures, its network, its state; `go` works until the time or the steps are over."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(plan.seed)
        kept = latents.load()
        self.pictures = torch.tensor(kept["numbers"], dtype=torch.float32, device=self.device)
        self.owners, self.styles = (
            torch.tensor(kept[name], device=self.device) for name in ("concepts", "styles")
        )
        self.network = Generator(len(concepts()), len(art.GENERATOR_STYLES)).to(self.device)
        self.average = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), plan.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        self.step, self.seconds, self.losses = 0, 0.0, [0.0, 0]
        self.path, self.log = work("runs", f"{plan.name}.pt"), work("runs", f"{plan.name}.jsonl")
        if self.path.exists():
            self._resume()

    def go(self, minutes: float) -> None:
        """Learn until the steps of the plan or the minutes are over."""
        began = kept = time.monotonic()
        spent = self.seconds
        while self.step < self.plan.steps and time.monotonic() - began < minutes * 60:
            self._learn()
            self.seconds = spent + time.monotonic() - began
            if self.step % _LOG_EVERY == 0:
                self._say()
            if time.monotonic() - kept > _KEEP_EVERY_S:
                self.keep()
                kept = time.monotonic()
        self.keep()

    def keep(self) -> None:
        """Everything to go on with, written whole or not at all."""
        state = {"network": self.network.state_dict(), "average": self.average, "step": self.step}
        state |= {
            "optimiser": self.optimiser.state_dict(),
            "seconds": self.seconds,
            "plan": asdict(self.plan),
        }
        fresh = self.path.with_suffix(".new")
        torch.save(state, fresh)
        fresh.replace(self.path)

    def _resume(self) -> None:
        state: dict[str, Any] = torch.load(self.path, map_location=self.device, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.average = state["average"]
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]
        torch.manual_seed(self.plan.seed + self.step)

    def _learn(self) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.rate * _warmth(self.step, self.plan.steps)
        chosen = torch.randint(0, len(self.pictures), (self.plan.batch,), device=self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = self._loss(chosen)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        share = 1 - min(_AVERAGE, self.step / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.values()), list(self.network.state_dict().values()), share)
        self.losses = [self.losses[0] + loss.item(), self.losses[1] + 1]

    def _loss(self, chosen: Tensor) -> Tensor:
        clean, count = self.pictures[chosen], len(chosen)
        moment = torch.sigmoid(torch.randn(count, device=self.device) + _NOISY)
        noisy = (1 - moment[:, None]) * torch.randn_like(clean) + moment[:, None] * clean
        concept = _left_out(self.owners[chosen], self.network.concepts.num_embeddings - 1, _NO_CONCEPT)
        style = _left_out(self.styles[chosen], self.network.styles.num_embeddings - 1, _NO_STYLE)
        found = self.network(noisy, moment, self.network.concepts(concept), self.network.styles(style))
        return functional.mse_loss(found.float(), clean)

    def _say(self) -> None:
        mean = self.losses[0] / max(1, self.losses[1])
        visits = self.step * self.plan.batch / len(self.pictures)
        line = {"step": self.step, "loss": round(mean, 5), "visits": round(visits, 1)}
        line |= {"seconds": round(self.seconds)}
        with Path(self.log).open("a") as log:
            log.write(json.dumps(line) + "\n")
        print(line, flush=True)
        self.losses = [0.0, 0]


def _left_out(numbers: Tensor, none: int, share: float) -> Tensor:
    return torch.where(torch.rand(len(numbers), device=numbers.device) < share, none, numbers)


def _warmth(step: int, steps: int) -> float:
    """The share of the learning rate: up over 100 steps, level, down over the last half."""
    return min(1.0, (step + 1) / 100, max(0.0, (steps - step) / (steps * 0.5)) + 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.train.image.train")
    parser.add_argument("--name", default="pictograms")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(2)
    Training(Plan(given.name, given.steps, given.batch, given.rate, given.seed)).go(given.minutes)


if __name__ == "__main__":
    main()
