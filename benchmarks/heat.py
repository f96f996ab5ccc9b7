"""Hot and cold: accuracy against labels that the model never sees, and CPU seconds for a million requests.

``python benchmarks/heat.py FOLDER``: the folder with AzureLLMInferenceTrace_code.csv and _conv.csv. All are judged on
the last 30 % of the time; labels (supervised) and the names of clusters come from the first 70 %. The valley of
density, by which the model chooses without labels, stands beside each clustering.
"""

from __future__ import annotations

import csv
import sys
import time
from datetime import datetime
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import balanced_accuracy_score
from sklearn.mixture import GaussianMixture
from sklearn.tree import DecisionTreeClassifier

from kvtools.heat.features import HeatColumns, recent
from kvtools.heat.model import HeatModel
from kvtools.heat.split import valley
from kvtools.heat.study import study_heat
from kvtools.heat.thresholds import Arrived
from kvtools.samples.mixed_traffic import mixed_requests


def azure(folder: Path) -> tuple[HeatColumns, np.ndarray]:
    rows = []
    for kind in ("code", "conv"):
        with (folder / f"AzureLLMInferenceTrace_{kind}.csv").open() as file:
            for row in csv.DictReader(file):
                at = datetime.fromisoformat(row["TIMESTAMP"][:26] + "+00:00").timestamp()
                lengths = int(row["ContextTokens"]), int(row["GeneratedTokens"])
                rows.append((round(at * 1e6), *lengths, kind == "conv"))
    at, prompt, output, conversation = np.array(sorted(rows), dtype=np.int64).T
    return HeatColumns.of(at, prompt, output_tokens=output), conversation == 1


def mapped(found: np.ndarray, truth: np.ndarray, held: np.ndarray) -> float:
    """Map the names on the first part, judge on the last."""
    if balanced_accuracy_score(truth[~held], found[~held]) < 0.5:
        found = ~found
    return float(balanced_accuracy_score(truth[held], found[held]))


def best_bound(values: np.ndarray, truth: np.ndarray, held: np.ndarray) -> float:
    tree = DecisionTreeClassifier(max_depth=1, class_weight="balanced", random_state=0)
    return mapped(tree.fit(values[~held], truth[~held]).predict(values), truth, held)


def accuracy(folder: Path) -> None:
    columns, truth = azure(folder)
    times = columns.times_s()
    held = times > 0.7 * times.max()
    study = study_heat(columns)
    rules = Arrived.of(columns).hot_by(study.thresholds.rules, study.thresholds.default)
    lengths = np.log1p(np.column_stack((columns.prompt_tokens, columns.output_tokens)).astype(float))
    # The gap before a request, and the requests of the minute before it: Azure names no routes.
    rate = np.arange(len(times)) - np.searchsorted(times, times - 60) + 1
    timed = np.column_stack((lengths, np.log(np.diff(times, prepend=times[0]) + 1e-3), np.log(rate)))
    arriving = np.nan_to_num(np.column_stack((columns.prompt_tokens, *recent(columns))))
    tree = DecisionTreeClassifier(max_depth=3, class_weight="balanced", min_samples_leaf=0.01, random_state=0)
    rows = {
        f"class ({study.model.method}, valley {study.model.valley:.2f})": mapped(
            study.label == 1, truth, held
        ),
        "rules on arrival, learnt from class": mapped(rules, truth, held),
    }
    for bound in (512, 1_000, 1_500, 2_048):
        rows[f"prompt over {bound:,} tokens"] = mapped(columns.prompt_tokens > bound, truth, held)
    for said, points in (("log prompt and output", lengths), ("the same, interval and rate", timed)):
        for name, method in (("KMeans(2)", KMeans(2, n_init=4, random_state=0)),
                             ("Gaussian mixture (2)", GaussianMixture(2, random_state=0))):  # fmt: skip
            scaled = (points - points[~held].mean(axis=0)) / points[~held].std(axis=0)
            found = method.fit(scaled[~held]).predict(scaled) == 1
            depth = valley(points[~held], found[~held])
            rows[f"{name} on {said} (valley {depth:.2f})"] = mapped(found, truth, held)
    rows["supervised: one bound on prompt tokens"] = best_bound(lengths[:, :1], truth, held)
    rows["supervised: one bound on output tokens"] = best_bound(lengths[:, 1:], truth, held)
    rows["supervised: tree of depth 3 on arrival"] = mapped(
        tree.fit(arriving[~held], truth[~held]).predict(arriving), truth, held
    )
    for name, value in rows.items():
        print(f"| {name} | {value:.3f} |")


def speed() -> None:
    made = mixed_requests(1_000_000)
    names = sorted({one.route for one in made})
    place = {name: number for number, name in enumerate(names)}
    columns = HeatColumns.of(
        np.array([1_000 * one.arrival_ms for one in made]),
        np.array([one.prompt_tokens for one in made]),
        route=np.array([place[one.route] for one in made]),
        output_tokens=np.array([one.output_tokens for one in made]),
        route_names=names,
    )
    cold = np.array([one.cold for one in made])
    begun = time.process_time()
    labels = HeatModel().fit(columns).labels_
    spent = time.process_time() - begun
    right = balanced_accuracy_score(cold, labels == 0)
    print(f"1,000,000 requests labelled in {spent:.1f} CPU s (target: 10), balanced accuracy {right:.3f}")


def main() -> None:
    if len(sys.argv) > 1:
        accuracy(Path(sys.argv[1]))
    speed()


if __name__ == "__main__":
    main()
