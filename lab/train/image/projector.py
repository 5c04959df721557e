"""Step 4b: trains what leads from an encoded phrase to the concepts, in a minute on a CPU.

`python -m lab.train.image.projector` writes projector.pt. A linear way and a small network beside it lift the
encoding to 256 numbers of unit length; the concept whose prototype is nearest is what the phrase means. 600
keywords that mean one concept alone are kept out, and tell how phrases that were never seen fare.
"""

import json
import time

import numpy as np
import torch
from lab.train.image import texts
from lab.train.image.concepts import LANGUAGES, concepts
from lab.train.image.network import CONCEPT
from lab.train.image.places import work
from torch import Tensor, nn
from torch.nn import functional

_STEPS, _BATCH, _RATE = 1500, 512, 1.5e-3
_NOISE, _DROPOUT = 0.15, 0.1
_SHARES = (0.35, 0.3, 0.35)
"""Of everyday words, names and keywords in a batch."""
_KEPT_OUT = 600
SHARPNESS = 20.0


class Projector(nn.Module):
    """[n, concepts] of likeness from encodings [n, 384]; the means and spreads of the encodings are part of
    it."""

    def __init__(self, count: int, mean: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)
        self.straight = nn.Linear(len(mean), CONCEPT)
        self.bent = nn.Sequential(nn.Linear(len(mean), 768), nn.GELU(), nn.Linear(768, CONCEPT))
        nn.init.zeros_(self.bent[2].weight)
        self.prototypes = nn.Parameter(torch.randn(count, CONCEPT) / CONCEPT**0.5)

    def forward(self, encoding: Tensor) -> Tensor:
        """The cosine of each phrase with each prototype."""
        standard = (encoding - self.mean) / self.spread
        if self.training:
            standard = functional.dropout(standard + _NOISE * torch.randn_like(standard), _DROPOUT)
        lifted = functional.normalize(self.straight(standard) + self.bent(standard), dim=-1)
        return lifted @ functional.normalize(self.prototypes, dim=-1).T


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(2)
    kept = texts.load()
    encodings = torch.tensor(kept["encodings"], dtype=torch.float32)
    wanted = torch.zeros(len(encodings), len(concepts()))
    wanted[tuple(torch.tensor(kept["pairs"]).T)] = 1
    wanted /= wanted.sum(1, keepdim=True)
    chance = np.random.default_rng(1)
    single = np.flatnonzero((kept["kinds"] == texts.KEYWORD) & (wanted.max(1).values.numpy() == 1))
    unseen = chance.choice(single, _KEPT_OUT, replace=False)
    seen = np.setdiff1d(np.arange(len(encodings)), unseen)
    pools = [torch.tensor(seen[kept["kinds"][seen] == kind]) for kind in range(3)]
    net = Projector(len(concepts()), encodings.mean(0), encodings.std(0))
    _learn(net, encodings, wanted, pools)
    torch.save(net.state_dict(), work("projector.pt"))
    figures = _figures(net.eval(), encodings, wanted, kept, unseen)
    work("projector.json").write_text(json.dumps(figures, indent=1))
    print(json.dumps(figures, indent=1))


def _learn(net: Projector, encodings: Tensor, wanted: Tensor, pools: list[Tensor]) -> None:
    optimiser = torch.optim.AdamW(net.parameters(), _RATE, weight_decay=0.1)
    began = time.monotonic()
    for step in range(_STEPS):
        for group in optimiser.param_groups:
            group["lr"] = _RATE * min(1, (step + 1) / 50) * (1 - step / _STEPS) + 1e-5
        counts = [round(_BATCH * share) for share in _SHARES]
        chosen = torch.cat(
            [pool[torch.randint(0, len(pool), (n,))] for pool, n in zip(pools, counts, strict=True)]
        )
        loss = functional.cross_entropy(net(encodings[chosen]) * SHARPNESS, wanted[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 250 == 0:
            print(step, round(loss.item(), 3), f"{time.monotonic() - began:.0f} s", flush=True)


@torch.no_grad()
def _figures(
    net: Projector, encodings: Tensor, wanted: Tensor, kept: dict[str, np.ndarray], unseen: np.ndarray
) -> dict[str, dict[str, float]]:
    """Per language: how many phrases have the right concept first, and among the first five."""
    found: dict[str, dict[str, float]] = {}
    for place, language in enumerate(LANGUAGES):
        mine = kept["languages"] == place
        groups = {
            "everyday words": mine & (kept["kinds"] == texts.EVERYDAY),
            "names": mine & (kept["kinds"] == texts.NAME),
        }
        groups["keywords never seen"] = mine & np.isin(np.arange(len(mine)), unseen)
        found[language] = {}
        for name, members in groups.items():
            scores = net(encodings[members])
            # Where a phrase may mean several, the best of them counts.
            best = torch.where(wanted[members] > 0, scores, -2.0).max(1).values
            ranks = (scores > best[:, None]).sum(1)
            found[language][f"{name}, first"] = round((ranks < 1).float().mean().item(), 3)
            found[language][f"{name}, of five"] = round((ranks < 5).float().mean().item(), 3)
            found[language][f"{name}, how many"] = int(members.sum())
    return found


if __name__ == "__main__":
    main()
