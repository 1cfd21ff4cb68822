"""A second sampler, slow and readable: the rules of the headers in csrc/sample, step by step, in plain Python.

It keeps all candidates in a dict, sorts whole rankings, searches repetitions by comparing slices, and draws from
``random.Random(seed + (stream << 64))``. Its floats are IEEE's, as the C++ code's are, so the tokens must be equal.
"""

from __future__ import annotations

import math
import random

import numpy as np

from muser.errors import LogitsError

F32 = np.float32
INF = math.inf
MAX = float(np.finfo(F32).max)
TINY = float(np.finfo(F32).tiny)
LN2 = 0.6931471805599453
ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature")
DISTRIBUTION, XTC, MIROSTAT, ADAPTIVE = range(4)

DEFAULTS = {
    "temperature": 1.0, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
    "typical_p": 1.0, "top_n_sigma": 0.0, "xtc_probability": 0.0, "xtc_threshold": 0.1, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "penalty_last_n": 64, "dry_multiplier": 0.0, "dry_base": 1.75,
    "dry_allowed_length": 2, "dry_penalty_last_n": -1, "dry_breakers": (), "mirostat": 0, "mirostat_tau": 5.0,
    "mirostat_eta": 0.1, "adaptive_target": -1.0, "adaptive_decay": 0.9, "logit_bias": (), "samplers": ORDER, "seed": 0,
}  # fmt: skip


def weights(distances) -> list[int]:
    """floor(2^30 * exp(x)) of x = (logit - best) * scale, as csrc/sample/weights.h rounds it."""
    x = np.maximum(np.asarray(distances, F32), F32(-21.0))
    n = (x * F32(1.44269504) + F32(12582912.0)) - F32(12582912.0)
    r = (x - n * F32(0.693359375)) + n * F32(2.12194440e-4)
    e = F32(1 / 5040)
    for coefficient in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        e = e * r + F32(coefficient)
    return [int(w) for w in (e * np.exp2(n + F32(30))).tolist()]


def exact_log(x: float) -> float:
    m, e = math.frexp(x)
    if m < 0.7071067811865476:
        m, e = m * 2, e - 1
    f = (m - 1) / (m + 1)
    total = 1 / 23
    for k in range(21, 0, -2):
        total = total * (f * f) + 1 / k
    return 2 * f * total + e * LN2


def exact_exp(x: float) -> float:
    x = max(-700.0, min(700.0, x))
    n = math.floor(x * 1.4426950408889634 + 0.5)
    r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    total = 1 / 6227020800.0
    for k in range(12, -1, -1):
        total = total * r + 1 / math.factorial(k)
    return math.ldexp(total, n)


def finite(x: float) -> np.float32:
    return F32(max(-MAX, min(MAX, x)))


class Oracle:
    def __init__(self, **parameters) -> None:
        self.p = {**DEFAULTS, **parameters}
        self.streams = [random.Random(self["seed"] + (k << 64)) for k in range(4)]
        self.history: list[int] = []
        self.mu = 2 * self["mirostat_tau"]
        self.weighted_sum = self["adaptive_target"] / (1 - self["adaptive_decay"])
        self.total_weight = 1 / (1 - self["adaptive_decay"])

    def __getitem__(self, name):
        return self.p[name]

    def next53(self, stream: int) -> int:
        return int(self.streams[stream].random() * 2**53)

    def accept(self, tokens) -> None:
        self.history += list(tokens)

    def sample(self, row, allowed=None) -> int:
        self.vocab = len(row)
        self.set = {t: F32(x) for t, x in enumerate(row) if x > -INF and (allowed is None or t in allowed)}
        self.scale = F32(1)
        if max(self.set.values()) == INF:
            self.set = {t: F32(0) for t, x in self.set.items() if x == INF}
        for token, bias in self["logit_bias"]:
            if token in self.set:
                if bias == -INF:
                    del self.set[token]
                else:
                    self.set[token] = finite(float(self.set[token]) + bias)
        if not self.set:
            raise LogitsError
        for step in self["samplers"]:
            if self["temperature"] != 0 or step in ("penalties", "dry"):
                getattr(self, step)()
        token = self.choose()
        self.history.append(token)
        return token

    # -- what the steps share ----------------------------------------------------------------------------------

    def ranking(self) -> list[int]:
        return sorted(self.set, key=lambda t: (-self.set[t], t))

    def keep(self, tokens) -> None:
        tokens = set(tokens)
        self.set = {t: x for t, x in self.set.items() if t in tokens}

    def distances(self) -> dict[int, np.float32]:
        """(best - logit) * scale"""
        best = max(self.set.values())
        with np.errstate(over="ignore", under="ignore"):
            return {t: (best - x) * self.scale for t, x in self.set.items()}

    def weights(self) -> dict[int, int]:
        return dict(zip(self.set, weights([-d for d in self.distances().values()])))

    def settle(self) -> None:
        with np.errstate(over="ignore", under="ignore"):
            if self.scale != 1:
                self.set = {t: F32(np.clip(x * self.scale, F32(-MAX), F32(MAX))) for t, x in self.set.items()}
        self.scale = F32(1)

    def prefix(self, order, share: float, *, beyond: bool) -> list[int]:
        """The shortest prefix whose weights sum to >= (beyond: >) share * total."""
        w = self.weights()
        target, running = share * sum(w.values()), 0
        for n, token in enumerate(order, 1):
            running += w[token]
            if running > target if beyond else running >= target:
                return order[:n]
        raise AssertionError("all of it is not enough")

    def draw(self, stream: int) -> int:
        w = self.weights()
        rest = self.next53(stream) * sum(w.values()) >> 53
        for token in sorted(w):
            if rest < w[token]:
                return token
            rest -= w[token]
        raise AssertionError("the running sum never passed the draw")

    def mean_distance(self) -> float:
        w, d = self.weights(), self.distances()
        exact = sum(w[t] * math.floor(float(d[t]) * 2**20) for t in w if w[t])
        return float(exact) / float(sum(w.values()) << 20)

    # -- the steps -------------------------------------------------------------------------------------------------

    def penalties(self) -> None:
        repetition, last_n = self["repetition_penalty"], self["penalty_last_n"]
        if last_n == 0 or (repetition, self["presence_penalty"], self["frequency_penalty"]) == (1, 0, 0):
            return
        self.settle()
        recent = self.history if last_n < 0 else self.history[-last_n:]
        for token in set(recent) & set(self.set):
            x = float(self.set[token])
            x = x / repetition if x > 0 else x * repetition
            x -= recent.count(token) * self["frequency_penalty"] + self["presence_penalty"]
            self.set[token] = finite(x)

    def dry(self) -> None:
        allowed, last_n = self["dry_allowed_length"], self["dry_penalty_last_n"]
        if not self["dry_multiplier"] or last_n == 0:
            return
        h = self.history if last_n < 0 else self.history[-last_n:]
        if len(h) <= allowed:
            return
        ends = [
            end
            for end in range(1, len(h) + 1)
            for b in map(list, self["dry_breakers"])
            if len(b) <= end and h[end - len(b) : end] == b
        ]
        limit = len(h) - max(ends, default=0)
        if limit < allowed:
            return
        longest: dict[int, int] = {}
        for k in range(1, len(h)):
            n = 0
            while n < limit and n + k < len(h) and h[-1 - n] == h[-1 - n - k]:
                n += 1
            if n >= allowed:
                token = h[len(h) - k]
                longest[token] = max(longest.get(token, 0), n)
        self.settle()
        for token, length in longest.items():
            if token in self.set and [token] not in [list(b) for b in self["dry_breakers"]]:
                power = 1.0
                for _ in range(length - allowed):
                    if power * self["dry_multiplier"] < 3.4e38:
                        power *= self["dry_base"]
                self.set[token] = finite(float(self.set[token]) - min(power * self["dry_multiplier"], 3.4e38))

    def top_n_sigma(self) -> None:
        if not self["top_n_sigma"]:
            return
        best, n = float(max(self.set.values())), len(self.set)
        lanes = np.zeros((2, 8))
        for token in sorted(self.set):
            d = float(self.set[token]) - best
            lanes[:, token % 8] += d, d * d
        s, squares = (((a + b) + (c + d)) + ((e + f) + (g + h)) for a, b, c, d, e, f, g, h in lanes.tolist())
        mean = s / n
        bound = -(self["top_n_sigma"] * math.sqrt(max(0.0, squares / n - mean * mean)))
        self.keep(t for t, x in self.set.items() if float(x) - best >= bound)

    def top_k(self) -> None:
        if self["top_k"] > 0:
            self.keep(self.ranking()[: self["top_k"]])

    def typical_p(self) -> None:
        if self["typical_p"] == 1:
            return
        mean, d = self.mean_distance(), self.distances()
        order = sorted(self.set, key=lambda t: (abs(float(d[t]) - mean), -self.set[t], t))
        self.keep(self.prefix(order, self["typical_p"], beyond=True))

    def top_p(self) -> None:
        if self["top_p"] < 1:
            self.keep(self.prefix(self.ranking(), self["top_p"], beyond=False))

    def min_p(self) -> None:
        if self["min_p"] > 0:
            bound = F32(float(max(self.set.values())) + exact_log(self["min_p"]) / float(self.scale))
            self.keep(t for t, x in self.set.items() if x >= bound)

    def xtc(self) -> None:
        if self["xtc_probability"] == 0 or self["xtc_threshold"] > 0.5:
            return
        if self.next53(XTC) / 2**53 < self["xtc_probability"]:
            w = self.weights()
            bound = self["xtc_threshold"] * sum(w.values())
            top = [t for t in self.ranking() if w[t] >= bound]
            self.keep(set(self.set) - set(top[:-1]))

    def temperature(self) -> None:
        temperature, reach = self["temperature"], self["dynatemp_range"]
        if reach > 0:
            n = len(self.set)
            if n < 2:
                return
            entropy = (exact_log(float(sum(self.weights().values()))) - 30 * LN2) + self.mean_distance()
            share = max(0.0, min(1.0, entropy / exact_log(float(n))))
            if self["dynatemp_exponent"] != 1 and share > 0:
                share = exact_exp(self["dynatemp_exponent"] * exact_log(share))
            low = max(0.0, temperature - reach)
            temperature = low + ((temperature + reach) - low) * share
        if temperature == 0:
            self.keep(self.ranking()[:1])
            return
        factor = 1 / temperature if temperature > 1e-300 else INF
        self.scale = F32(max(TINY, min(MAX, float(self.scale) * factor)))

    # -- the end -----------------------------------------------------------------------------------------------

    def choose(self) -> int:
        if self["temperature"] == 0:
            return self.ranking()[0]
        if self["mirostat"]:
            self.keep(self.zipf() if self["mirostat"] == 1 else self.unsurprising())
            token = self.draw(MIROSTAT)
            w = self.weights()
            surprise = (exact_log(float(sum(w.values()))) - exact_log(float(w[token]))) / LN2
            self.mu -= self["mirostat_eta"] * (surprise - self["mirostat_tau"])
            return token
        if self["adaptive_target"] >= 0:
            return self.adaptive()
        return self.draw(DISTRIBUTION)

    def unsurprising(self) -> list[int]:
        w = self.weights()
        bound = sum(w.values()) * exact_exp(-self.mu * LN2)
        return self.ranking()[:1] + [t for t in w if w[t] > 0 and w[t] >= bound]

    def zipf(self) -> list[int]:
        ranking = self.ranking()
        n = len(ranking)
        if n < 2:
            return ranking
        tb = tt = 0.0
        for i in range(min(100, n) - 1):
            t = exact_log((i + 2) / (i + 1))
            b = (float(self.set[ranking[i]]) - float(self.set[ranking[i + 1]])) * float(self.scale)
            tb += t * b
            tt += t * t
        s = tb / tt
        log_vocab = exact_log(float(self.vocab))
        fraction = 1 / log_vocab if abs(s - 1) < 1e-9 else (s - 1) / (1 - exact_exp(-(s - 1) * log_vocab))
        numerator = self.mu * LN2 + exact_log(fraction)
        if s == 0:
            return ranking if numerator > 0 else ranking[:1]
        log_k = numerator / s
        if log_k >= exact_log(float(n)):
            return ranking
        return ranking[: int(exact_exp(log_k)) if log_k > 0 else 1]

    def adaptive(self) -> int:
        w = self.weights()
        total = float(sum(w.values()))
        aim = max(0.0, min(1.0, 2 * self["adaptive_target"] - self.weighted_sum / self.total_weight))
        for token in self.set:
            d = abs(w[token] / total - aim) / 0.3
            self.set[token] = F32(5 - 10 * d * d / (1 + d))
        self.scale = F32(1)
        token = self.draw(ADAPTIVE)
        self.weighted_sum = w[token] / total + self["adaptive_decay"] * self.weighted_sum
        self.total_weight = 1 + self["adaptive_decay"] * self.total_weight
        return token
