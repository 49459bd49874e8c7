"""Computes metrics of random predictions with scikit-learn (1.9): writes ../fixtures/metrics.json.

python -m venv env && env/bin/pip install scikit-learn && env/bin/python dl-train/tests/reference/metrics.py
"""

import json
from pathlib import Path

import numpy as np
from sklearn import metrics

CASES = [(1, 2, 7), (2, 3, 40), (3, 5, 90), (4, 10, 120), (5, 6, 4)]  # seed, classes, samples: the last ones leave classes out


def case(seed, classes, samples):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=samples)
    if seed == 4:
        labels[labels == 3] = 4  # a class without samples, which is predicted
    scores = (rng.normal(size=(samples, classes)) + 1.5 * np.eye(classes)[labels]).round(4)
    predicted = scores.argmax(1)
    if seed == 3:
        predicted[predicted == 2] = 0  # a class that is never predicted
    everything = range(classes)
    common = dict(labels=everything, zero_division=0)
    averages = {
        average or "each": [np.asarray(part).tolist() for part in metrics.precision_recall_fscore_support(labels, predicted, average=average, **common)[:3]]
        for average in [None, "macro", "micro"]
    }
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    top = lambda k: metrics.top_k_accuracy_score(labels, scores if classes > 2 else scores[:, 1] - scores[:, 0], k=k, labels=everything)
    return dict(
        classes=classes,
        labels=labels.tolist(),
        predicted=predicted.tolist(),
        scores=scores.ravel().tolist(),
        accuracy=metrics.accuracy_score(labels, predicted),
        confusion=metrics.confusion_matrix(labels, predicted, labels=everything).ravel().tolist(),
        averages=averages,
        top={str(k): top(k) for k in range(1, classes)},
        cross_entropies=(-np.log(chances[np.arange(samples), labels])).tolist(),
        perplexity=np.exp(metrics.log_loss(labels, chances, labels=everything)),
    )


out = Path(__file__).parent.parent / "fixtures" / "metrics.json"
out.write_text(json.dumps([case(*which) for which in CASES]) + "\n")
