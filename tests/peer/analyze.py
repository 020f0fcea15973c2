#!/usr/bin/env python3
"""Serving and decode metrics of a trace archive, in plain pandas and numpy.

A second implementation of the definitions, written from their text alone. It exists to cross-check
the Rust program and to be the yardstick of its benchmark. Run `analyze.py --help` for usage.

All times are int64 nanoseconds since the Unix epoch. They are subtracted as integers and only the
differences become floats: an epoch in float64 steps by 238 ns.
"""

import argparse
import csv
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NS = 1e-9
STEADY_SIZE = 100
STEADY_CV = 0.03
RELEASE_TOLERANCE = 0.05
RELEASE_HOLD_NS = 30_000_000_000

# One entry a Parquet column that is used; times and token counts become pandas' nullable Int64.
POWER_COLUMNS = {"t": "time", "source": "text", "device": "text", "power_w": "float", "energy_j": "float"}
REQUEST_COLUMNS = {
    "request_id": "text", "stage": "text", "status": "text",
    "t_send": "time", "t_first_token": "time", "t_end": "time",
    "ttft_ns": "int", "e2e_ns": "int", "output_tokens": "int",
    "itl_ns": "list", "itl_tokens": "list",
}
STEP_COLUMNS = {
    "t_start": "time", "t_end": "time", "iterations": "int", "new_tokens": "int", "history_tokens": "int",
}


class Missing(str):
    """The reason why a value cannot be had, in place of the value."""


def first_missing(*values):
    return next((v for v in values if isinstance(v, Missing)), None)


def ratio(numerator, denominator, if_zero):
    """numerator / denominator; a missing operand passes its reason on, a zero denominator is `if_zero`."""
    missing = first_missing(numerator, denominator)
    if missing is not None:
        return missing
    return numerator / denominator if denominator else Missing(if_zero)


def relative_difference(value, reference):
    missing = first_missing(value, reference)
    return missing if missing is not None else ratio(value - reference, reference, "zero-energy")


def total(*values):
    missing = first_missing(*values)
    return sum(values) if missing is None else missing


# --- Reading --------------------------------------------------------------------------------------


def read_table(path, columns):
    """The declared columns of a Parquet file as a DataFrame (absent ones all null); None without a file."""
    if not path.exists():
        return None
    present = pq.read_schema(path).names
    table = pq.read_table(
        path,
        columns=[name for name in columns if name in present],
        read_dictionary=[name for name in ("source", "device", "stage", "status") if name in columns],
    )
    for name, kind in columns.items():
        if name not in present:
            null = pa.nulls(table.num_rows, pa.float64() if kind == "float" else pa.int64())
            table = table.append_column(name, null)
        elif kind == "time":
            # Any finer or coarser unit is brought to ns before it is read as an integer.
            ns = table[name].cast(pa.timestamp("ns", table.schema.field(name).type.tz)).cast(pa.int64())
            table = table.set_column(table.column_names.index(name), name, ns)
        elif kind == "int":
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
    return table.to_pandas(types_mapper=lambda t: pd.Int64Dtype() if t == pa.int64() else None)


def duration(a, b):
    """Seconds from a to b."""
    if a is None or b is None:
        return Missing("missing-stamp")
    return (b - a) * NS if b >= a else Missing("stamps-out-of-order")


def stage_times(manifest):
    stamps = manifest.get("stages") or {}
    return {name: pd.Timestamp(text).value for name, text in stamps.items() if text is not None}


# --- Series and energy over a window (metrics.md section 1) --------------------------------------------


@dataclass
class Series:
    """Power, or an unwrapped counter, of one device: `t` strictly increasing, `value` valid."""

    t: np.ndarray
    value: np.ndarray
    hold: bool
    nominal_ns: float
    is_counter: bool

    def __post_init__(self):
        self.elapsed = (self.t - self.t[0]) * NS if len(self.t) else np.empty(0)
        if not self.is_counter and len(self.t):
            level = self.value[:-1] if self.hold else (self.value[:-1] + self.value[1:]) / 2
            self.cumulative = np.concatenate(([0.0], np.cumsum(level * np.diff(self.elapsed))))

    def read(self, x):
        """The value at times x, the nearest sample's outside the samples."""
        if self.hold:
            return self.value[np.clip(np.searchsorted(self.t, x, side="right") - 1, 0, None)]
        return np.interp((x - self.t[0]) * NS, self.elapsed, self.value)

    def energy_until(self, x):
        """Energy in J from a fixed origin up to times x; edges held at the nearest sample."""
        if self.is_counter:
            return self.read(x)
        last = len(self.t) - 1
        i = np.clip(np.searchsorted(self.t, x, side="right") - 1, 0, last)
        seconds = (x - self.t[i]) * NS
        # Before the first and after the last sample `read` holds, so the mean level is that sample.
        level = self.value[i] if self.hold else (self.value[i] + self.read(x)) / 2
        return self.cumulative[i] + level * seconds

    def max_gap_ns(self, a, b):
        inside = self.t[np.searchsorted(self.t, a, side="left"):np.searchsorted(self.t, b, side="right")]
        return 3 * (float(np.median(np.diff(inside))) if len(inside) >= 3 else self.nominal_ns)

    def covers(self, a, b):
        if len(self.t) == 0:
            return False
        gap = self.max_gap_ns(a, b)
        return self.t[0] - a <= gap and b - self.t[-1] <= gap


def valid_samples(t, values, merge):
    """Samples that are finite and not negative, by time; those sharing a time are merged into one."""
    keep = np.isfinite(values) & (values >= 0)
    t, values = t[keep], values[keep]
    order = np.argsort(t, kind="stable")
    t, values = t[order], values[order]
    if len(t) and (np.diff(t) == 0).any():
        merged = pd.Series(values).groupby(t).agg(merge)
        t, values = merged.index.to_numpy(), merged.to_numpy()
    return t, values


def unwrap(counter, wrap_j):
    """A counter from zero that never falls: a wrap is added back, a reset counts as nothing."""
    steps = np.diff(counter, prepend=counter[:1])
    if wrap_j is not None:
        steps = np.where(steps < 0, steps + wrap_j, steps)
    return np.cumsum(np.where(steps < 0, 0.0, steps))


@dataclass
class DeviceSet:
    """The devices whose energies are summed, with their power and counter series."""

    power: list
    counter: list

    def series(self, method):
        return self.counter if method == "counter" else self.power

    def has(self, method):
        return any(len(s.t) for s in self.series(method))

    def missing(self, method, a, b):
        """Why the energy over [a, b] cannot be had, or None."""
        if a is None or b is None:
            return Missing("missing-stamp")
        if b < a:
            return Missing("stamps-out-of-order")
        if not self.power:
            return Missing("no-power-source")
        if not self.has(method):
            return Missing("no-counter" if method == "counter" else "no-power-samples")
        if not all(s.covers(a, b) for s in self.series(method)):
            return Missing("not-covered")
        return None

    def energy_until(self, method, x):
        return sum(s.energy_until(x) for s in self.series(method))

    def energy(self, method, a, b):
        missing = self.missing(method, a, b)
        if missing is not None:
            return missing
        start, end = self.energy_until(method, np.array([a, b]))
        return float(end - start)


def device_set(power, sources, scopes):
    """The devices of the first scope that has rows. A device seen by two of its sources counts once."""
    found = DeviceSet([], [])
    for scope in scopes:
        seen = set()
        for source in (s for s in sources if s["scope"] == scope):
            rows = power[power["source"] == source["id"]]
            for device, group in rows.groupby("device", observed=True, sort=True):
                if device in seen:
                    continue
                seen.add(device)
                t = group["t"].to_numpy(dtype=np.int64) + int(source.get("clock_offset_ns") or 0)
                shape = (source.get("interpolation") == "hold", (source.get("nominal_interval_ms") or 0) * 1e6)
                watts = valid_samples(t, group["power_w"].to_numpy(dtype=float), "mean")
                joules = valid_samples(t, group["energy_j"].to_numpy(dtype=float), "max")
                found.power.append(Series(*watts, *shape, is_counter=False))
                unwrapped = unwrap(joules[1], source.get("counter_wrap_j"))
                found.counter.append(Series(joules[0], unwrapped, *shape, is_counter=True))
        if seen:
            break
    return found


def stage_method(manifest, stage, gpus):
    chosen = (manifest.get("energy_method") or {}).get(stage)
    if chosen:
        return chosen
    if stage in ("startup", "release"):
        return "trapezoid"
    return "counter" if gpus.has("counter") else "trapezoid"


# --- Release ------------------------------------------------------------------------------------------


def release_end(gpus, stages):
    """The time at which every device is back at its idle power for 30 s; None if that never happens."""
    idle = stages.get("idle_start"), stages.get("idle_end")
    missing = gpus.missing("trapezoid", *idle)
    if missing is not None:
        return missing
    if "formal_end" not in stages:
        return Missing("missing-stamp")
    if idle[0] == idle[1]:
        return Missing("empty-window")
    a, b = np.array(idle)
    baselines = [float(np.diff(s.energy_until(np.array([a, b])))[0] / ((b - a) * NS)) for s in gpus.power]
    begin = max(stages[name] for name in ("formal_end", "process_exit", "memory_released") if name in stages)
    end = stages.get("monitor_end", min(int(s.t[-1]) for s in gpus.power))

    times = np.unique(np.concatenate([s.t for s in gpus.power]))
    times = times[(times >= begin) & (times <= end)]
    if len(times) == 0:
        return None
    within = np.ones(len(times), dtype=bool)
    for series, baseline in zip(gpus.power, baselines):
        within &= np.abs(series.read(times) - baseline) <= RELEASE_TOLERANCE * baseline
    # The first excursion at or after each candidate must lie beyond its hold.
    outside = times[~within]
    next_outside = np.append(outside, np.iinfo(np.int64).max)[np.searchsorted(outside, times, side="left")]
    hold_end = times + RELEASE_HOLD_NS
    good = (next_outside > hold_end) & (hold_end <= end)
    for series in gpus.power:
        good &= ~gap_inside(series, times, hold_end, series.max_gap_ns(begin, end))
    return int(times[good.argmax()]) if good.any() else None


def gap_inside(series, a, b, max_gap):
    """Whether a gap above max_gap between samples, or after the last one, overlaps each [a, b]."""
    wide = np.flatnonzero(np.diff(series.t) > max_gap)
    gap_start = np.append(series.t[wide], np.iinfo(np.int64).max)
    gap_end = series.t[wide + 1]
    next_gap_start = gap_start[np.searchsorted(gap_end, a, side="right")]
    return (next_gap_start < b) | (b - series.t[-1] > max_gap) | (series.t[0] - a > max_gap)


# --- Requests: tokens in time, energies, steady state ---------------------------------------------------


class Generation:
    """When each successful formal request outputs its tokens.

    Three shapes: `even` (no gaps recorded: a uniform density over (start, end]), `gapped` (tokens at
    their own times) and `empty` (start = end: all tokens at that instant).
    """

    def __init__(self, ok, recorded):
        self.tokens = ok["output_tokens"].to_numpy(dtype=np.int64)
        # Without a first token the request is taken to generate over (t_send, t_end].
        start = ok["t_first_token"].fillna(ok["t_send"])
        timed = (start.notna() & ok["t_end"].notna()).to_numpy(dtype=bool)
        self.timed = timed
        self.start = start.fillna(0).to_numpy(dtype=np.int64)
        self.end = np.maximum(ok["t_end"].fillna(0).to_numpy(dtype=np.int64), self.start)

        owner, gap_ns, chunk = recorded
        chunk_sum = summed(owner, chunk, len(ok))
        self.empty = timed & (self.start == self.end)
        self.gapped = timed & ~self.empty & ok["t_first_token"].notna().to_numpy(dtype=bool) & (chunk_sum > 0)
        self.even = timed & ~self.empty & ~self.gapped
        length = (self.end - self.start) * NS
        self.density = np.divide(self.tokens, length, out=np.zeros(len(ok)), where=self.even)

        # Every chunk, the first one included, is weighted so that a request's total is output_tokens.
        mine = self.gapped[owner]
        owner, gap_ns, chunk = owner[mine], gap_ns[mine], chunk[mine]
        scale = np.divide(self.tokens, chunk_sum + 1, out=np.zeros(len(ok)), where=self.gapped)
        before = np.concatenate(([0], np.cumsum(gap_ns)))
        counts = np.bincount(owner, minlength=len(ok))
        since_start = before[1:] - np.repeat(before[np.cumsum(counts) - counts], counts)
        self.owner = owner
        self.time = np.minimum(self.start[owner] + since_start, self.end[owner])
        self.weight = chunk * scale[owner]
        self.first_weight = scale

    def tokens_within(self, a, b):
        """Tokens generated in (a, b]; fractional where a density is cut."""
        overlap = np.clip(np.minimum(self.end, b) - np.maximum(self.start, a), 0, None) * NS
        even = (self.density * overlap).sum()
        inside = (self.start > a) & (self.start <= b)
        later = self.weight[(self.time > a) & (self.time <= b)].sum()
        return float(
            even + self.tokens[self.empty & inside].sum() + self.first_weight[self.gapped & inside].sum() + later
        )

    def attribute(self, energy_until, a, b):
        """Energy of each request over [a, b] in J, whether it has tokens there, and what is left over."""
        start, end = np.clip(self.start, a, b), np.clip(self.end, a, b)
        bounds = np.unique(np.concatenate(([a, b], start[self.timed], end[self.timed])))
        intervals = len(bounds) - 1
        if intervals == 0:
            return np.zeros(len(start)), np.zeros(len(start), dtype=bool), 0.0
        energy = np.diff(energy_until(bounds))
        length = np.diff(bounds) * NS

        # Even spacing: the summed density of every interval, from its changes at starts and ends.
        e0, e1 = np.searchsorted(bounds, start[self.even]), np.searchsorted(bounds, end[self.even])
        density = self.density[self.even]

        def running(weights):
            change = summed(e0, weights, intervals + 1) - summed(e1, weights, intervals + 1)
            return np.cumsum(change)[:intervals]

        # The count tells idle intervals from the rounding residue of the summed densities.
        active = running(np.ones(len(e0))) > 0.5
        tokens = np.where(active, running(density), 0.0) * length

        # A first token counts in the interval that begins at its time, any later one in (start, end].
        at_start = np.searchsorted(bounds, self.start, side="right") - 1
        first = np.flatnonzero(self.gapped & (self.start >= a) & (self.start < b))
        # At formal_end no interval begins: a request that is only an instant there joins the last one.
        instant = np.flatnonzero(self.empty & (self.start >= a) & (self.start <= b))
        later = np.flatnonzero((self.time > a) & (self.time <= b))
        with_first = self.time[later] == self.start[self.owner[later]]
        later_index = np.searchsorted(bounds, self.time[later], side="left") - 1
        later_index = np.where(with_first, at_start[self.owner[later]], later_index)
        index = np.concatenate((at_start[first], np.minimum(at_start[instant], intervals - 1), later_index))
        owner = np.concatenate((first, instant, self.owner[later]))
        weight = np.concatenate((self.first_weight[first], self.tokens[instant], self.weight[later]))
        within = index < intervals
        index, owner, weight = index[within], owner[within], weight[within]
        tokens += summed(index, weight, intervals)

        per_token = np.divide(energy, tokens, out=np.zeros(intervals), where=tokens > 0)
        attributed = summed(owner, weight * per_token[index], len(start))
        until = np.concatenate(([0.0], np.cumsum(per_token * length)))
        attributed[self.even] += density * (until[e1] - until[e0])
        has_tokens = summed(owner, weight, len(start)) > 0
        has_tokens[self.even] |= (e1 > e0) & (density > 0)
        return attributed, has_tokens, float(energy[tokens == 0].sum())


def chunks(ok):
    """Every recorded gap of the requests: (row of the request, gap in ns, tokens in the chunk)."""
    empty = np.empty(0, dtype=np.int64)
    gaps = [empty if not isinstance(g, np.ndarray) else g for g in ok["itl_ns"]]
    sizes = [
        k if isinstance(k, np.ndarray) and len(k) == len(g) else np.ones(len(g), dtype=np.int64)
        for g, k in zip(gaps, ok["itl_tokens"])
    ]
    owner = np.repeat(np.arange(len(ok)), [len(g) for g in gaps])
    join = lambda parts: np.concatenate([empty, *parts]).astype(np.int64)
    return owner, join(gaps), join(sizes)


def summed(index, weights, length):
    """Weights added up by index. Unlike bincount's, the result is float when there is nothing to add."""
    return np.bincount(index, weights, minlength=length).astype(float)


def window_cv(j_per_token):
    """CV of each full window of STEADY_SIZE successive requests, by its first request."""
    if len(j_per_token) < STEADY_SIZE:
        return np.empty(0)
    windows = np.lib.stride_tricks.sliding_window_view(j_per_token, STEADY_SIZE)
    with np.errstate(divide="ignore", invalid="ignore"):
        return windows.std(axis=1, ddof=1) / windows.mean(axis=1)


def summarise(values_ms, if_none):
    """Percentiles, mean and both standard deviations, keyed by suffix."""
    values = values_ms[~np.isnan(values_ms)]
    quantiles = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
    if len(values) == 0:
        keys = [*(f"{k}_ms" for k in quantiles), "mean_ms", "std_ms", "std_population_ms"]
        return {key: Missing(if_none) for key in keys}
    found = dict(zip((f"{k}_ms" for k in quantiles), np.percentile(values, list(quantiles.values()))))
    found["mean_ms"] = values.mean()
    found["std_ms"] = values.std(ddof=1) if len(values) > 1 else Missing("too-few-values")
    found["std_population_ms"] = values.std()
    return found


def latency_metrics(ok, recorded_gaps):
    """Latencies of the successful formal requests; `ok` is None for a run without requests."""
    if ok is None:
        nothing = np.empty(0)
        found = {name: (nothing, "no-requests") for name in ("ttft", "tpot", "itl", "e2e")}
    else:
        ttft = span_ns(ok, "t_send", "t_first_token", "ttft_ns")
        e2e = span_ns(ok, "t_send", "t_end", "e2e_ns")
        decode = span_ns(ok, "t_first_token", "t_end").fillna(e2e - ttft)
        tpot = (decode / (ok["output_tokens"] - 1)).where(ok["output_tokens"] >= 2)
        _, gap_ns, chunk = recorded_gaps
        itl = np.repeat(np.divide(gap_ns, chunk, out=np.zeros(len(gap_ns)), where=chunk > 0), chunk)
        found = {
            "ttft": (ttft, "no-first-token"), "tpot": (tpot, "no-token-times"),
            "itl": (pd.Series(itl), "no-token-gaps"), "e2e": (e2e, "missing-end"),
        }
        none = "no-successful-requests" if len(ok) == 0 else None
        as_ms = lambda ns: ns.to_numpy(dtype=float, na_value=np.nan) / 1e6
        found = {name: (as_ms(ns), none or reason) for name, (ns, reason) in found.items()}
    return {
        f"{name}_{suffix}": value
        for name, (values_ms, reason) in found.items()
        for suffix, value in summarise(values_ms, reason).items()
    }


def span_ns(ok, earlier, later, recorded=None):
    """later − earlier, or the recorded duration where a time is null. A negative result is null."""
    ns = ok[later] - ok[earlier]
    if recorded is not None:
        ns = ns.fillna(ok[recorded])
    return ns.where(ns >= 0)


# --- One run ------------------------------------------------------------------------------------------


def serving_metrics(manifest, power, requests):
    """Metrics of a serving run, and its per-request rows (None without requests)."""
    stages = stage_times(manifest)
    sources = manifest.get("power_sources") or []
    gpus = device_set(power, sources, ("gpu-board", "gpu-module"))
    node = device_set(power, sources, ("node", "pdu"))
    formal = stages.get("formal_start"), stages.get("formal_end")
    m = lifecycle_metrics(manifest, gpus, stages)
    if requests is None:
        ok, missing = None, Missing("no-requests")
        m.update(dict.fromkeys(("requests_total", "requests_failed", "output_tokens"), missing))
        m.update(latency_metrics(None, None))
        completed, rate = missing, claimed_rate(manifest)
    else:
        requests = requests[requests["stage"] == "formal"]
        success = (requests["status"] == "ok") & requests["output_tokens"].notna()
        ok = requests[success].sort_values(["t_end", "t_send", "request_id"], ignore_index=True)
        failed = requests[~success].sort_values("request_id")
        recorded = chunks(ok)
        generation = Generation(ok, recorded)
        m["requests_total"], m["requests_failed"] = len(requests), len(failed)
        m["output_tokens"] = int(ok["output_tokens"].sum())
        m.update(latency_metrics(ok, recorded))
        completed, rate = len(ok), ratio(m["output_tokens"], duration(*formal), "empty-window")
        missing = first_missing(m["formal_energy_j"])
        if missing is None and len(ok) and not generation.timed.any():
            missing = Missing("missing-end" if ok["t_first_token"].notna().any() else "no-request-times")
    m["output_throughput_tok_s"] = ratio(m["output_tokens"], duration(*formal), "empty-window")
    m["request_throughput_req_s"] = ratio(completed, duration(*formal), "empty-window")
    m["formal_j_per_token"] = ratio(m["formal_energy_j"], m["output_tokens"], "no-output-tokens")
    m["lifecycle_j_per_token"] = ratio(m["lifecycle_energy_j"], m["output_tokens"], "no-output-tokens")
    m.update(node_metrics(node, *formal, rate))

    rows = None
    m["unattributed_energy_j"] = missing
    if missing is None:
        method = stage_method(manifest, "formal", gpus)
        energy, has_tokens, m["unattributed_energy_j"] = generation.attribute(
            lambda x: gpus.energy_until(method, x), *formal
        )
        energy = np.where(has_tokens, energy, np.nan)
        per_token = np.divide(energy, generation.tokens, out=np.full(len(ok), np.nan), where=has_tokens)
        rows = pd.DataFrame({"request_id": ok["request_id"], "energy_j": energy, "j_per_token": per_token})
        if ok["t_end"].isna().any():
            missing = Missing("missing-end")
    start = steady_start(missing, ok, rows, formal)
    m.update(steady_metrics(manifest, gpus, start, formal[1], generation if ok is not None else None))
    return m, None if ok is None else request_rows(manifest["run_id"], ok, failed, rows)


def mean_power(energy, a, b):
    return ratio(energy, duration(a, b), "empty-window")


def stage_energies(manifest, gpus, stage, window):
    """Energy of a stage by its own method, by both, and their difference; `window` may be a reason."""
    by_method = {
        method: window if isinstance(window, Missing) else gpus.energy(method, *window)
        for method in ("trapezoid", "counter")
    }
    return {
        f"{stage}_energy_j": by_method[stage_method(manifest, stage, gpus)],
        f"{stage}_energy_trapezoid_j": by_method["trapezoid"],
        f"{stage}_energy_counter_j": by_method["counter"],
        f"{stage}_energy_method_difference": relative_difference(by_method["counter"], by_method["trapezoid"]),
    }


def lifecycle_metrics(manifest, gpus, stages):
    """Idle power, the energies of the stages that touch each other, and the release."""
    launch, formal_start, formal_end = (stages.get(k) for k in ("launch", "formal_start", "formal_end"))
    idle = stages.get("idle_start"), stages.get("idle_end")
    ended = release_end(gpus, stages)
    not_closed = ended if isinstance(ended, Missing) else Missing("release-not-closed") if ended is None else None
    m = {"idle_power_w": mean_power(gpus.energy("trapezoid", *idle), *idle)}
    m.update(stage_energies(manifest, gpus, "startup", (launch, formal_start)))
    m.update(stage_energies(manifest, gpus, "formal", (formal_start, formal_end)))
    m.update(stage_energies(manifest, gpus, "release", not_closed or (formal_end, ended)))
    m["formal_power_w"] = mean_power(m["formal_energy_j"], formal_start, formal_end)
    m["release_closed"] = ended if isinstance(ended, Missing) else ended is not None
    m["release_end"] = not_closed or ended
    m["release_seconds"] = not_closed or duration(formal_end, ended)
    stage_sum = total(m["startup_energy_j"], m["formal_energy_j"], m["release_energy_j"])
    m["lifecycle_energy_j"] = not_closed or stage_sum
    m["lifecycle_power_w"] = not_closed or mean_power(stage_sum, launch, ended)
    return m


def steady_start(missing, ok, rows, formal):
    """(index of the first steady request, start of the steady window in ns), or why there is none.

    Requires `ok` and `rows` in order of completion; leaves `order` and `window_cv` in `rows`.
    """
    if missing is not None:
        return missing
    cv = window_cv(rows["j_per_token"].to_numpy())
    rows["order"] = np.arange(len(rows))
    rows["window_cv"] = np.concatenate((cv, np.full(len(rows) - len(cv), np.nan)))
    if len(ok) < 2 * STEADY_SIZE:
        return Missing("too-few-requests")
    low = cv < STEADY_CV
    qualifies = low[:-STEADY_SIZE] & low[STEADY_SIZE:]
    if not qualifies.any():
        return Missing("steady-not-reached")
    first = int(qualifies.argmax())
    return first, formal[0] if first == 0 else int(ok["t_end"].iloc[first - 1])


def steady_metrics(manifest, gpus, start, formal_end, generation):
    """Values of the steady window, which begins at `start` (a reason if there is none)."""
    if isinstance(start, Missing):
        never = start in ("steady-not-reached", "too-few-requests")
        m = {"steady_reached": False if never else start}
        m.update(dict.fromkeys(("steady_first_request", "steady_start", "steady_tokens", "steady_power_w"), start))
        m.update(stage_energies(manifest, gpus, "steady", start))
    else:
        first, begin = start
        m = {"steady_reached": True, "steady_first_request": first, "steady_start": begin}
        m["steady_tokens"] = generation.tokens_within(begin, formal_end)
        m.update(stage_energies(manifest, gpus, "steady", (begin, formal_end)))
        m["steady_power_w"] = mean_power(m["steady_energy_j"], begin, formal_end)
    m["steady_j_per_token"] = ratio(m["steady_energy_j"], m["steady_tokens"], "no-output-tokens")
    return m


def request_rows(run_id, ok, failed, rows):
    """One row a formal request: the successful ones in order of completion, then the others."""
    columns = ["request_id", "energy_j", "j_per_token", "order", "window_cv"]
    first = ok if rows is None else rows
    parts = [part.reindex(columns=columns) for part in (first, failed) if len(part)]
    table = pd.concat(parts) if parts else pd.DataFrame(columns=columns)
    table["order"] = table["order"].astype("Int64")
    table.insert(0, "run_id", run_id)
    return table


def node_metrics(node, a, b, rate):
    """Values of the node source over [a, b], never mixed with the GPUs'; `rate` in tok/s."""
    energy = node.energy("trapezoid", a, b)
    power = mean_power(energy, a, b)
    sample_mean = sample_mean_power(node, a, b)
    return {
        "node_energy_j": energy,
        "node_power_w": power,
        "node_j_per_token": ratio(power, rate, "no-output-tokens"),
        "node_sample_mean_power_w": sample_mean,
        "node_sample_mean_j_per_token": ratio(sample_mean, rate, "no-output-tokens"),
    }


def sample_mean_power(node, a, b):
    """Plain mean of the samples in [a, b], devices summed (MLPerf Power's rule)."""
    if a is None or b is None:
        return Missing("missing-stamp")
    if not node.power:
        return Missing("no-power-source")
    inside = [s.value[(s.t >= a) & (s.t <= b)] for s in node.power]
    if not all(len(values) for values in inside):
        return Missing("not-covered")
    return float(sum(values.mean() for values in inside))


def claimed_rate(manifest):
    for claim in manifest.get("claims") or []:
        if claim["metric"] == "output_throughput_tok_s":
            return float(claim["value"])
    return Missing("no-requests")


def decode_metrics(manifest, power, steps):
    """The coordinates of the decode energy model (metrics.md section 4)."""
    stages = stage_times(manifest)
    a, b = stages.get("decode_start"), stages.get("decode_end")
    gpus = device_set(power, manifest.get("power_sources") or [], ("gpu-board", "gpu-module"))
    missing = None
    if a is None or b is None:
        missing = Missing("missing-stamp")
    elif steps is None:
        missing = Missing("no-steps")
    tokens = iterations = history = missing
    if missing is None:
        # A step without a start is placed by its end alone.
        started = (steps["t_start"] >= a).fillna(steps["t_end"] > a)
        counted = steps[(started & (steps["t_end"] <= b)).to_numpy(dtype=bool)]
        tokens = int(counted["new_tokens"].sum())
        iterations = int(counted["iterations"].fillna(1).sum())
        history = (
            Missing("no-history") if counted["history_tokens"].isna().any() else int(counted["history_tokens"].sum())
        )
    m = {"tokens": tokens, "iterations": iterations}
    m["duration_s"] = duration(a, b)
    m["energy_j"] = gpus.energy(stage_method(manifest, "decode", gpus), a, b)
    m["j_per_token"] = ratio(m["energy_j"], tokens, "no-output-tokens")
    m["b_eff"] = ratio(tokens, iterations, "no-steps")
    m["mean_history_tokens"] = ratio(history, tokens, "no-output-tokens")
    m["q_w_gb"] = ratio(ratio(weight_bytes(manifest["model"]), 1e9, ""), m["b_eff"], "no-output-tokens")
    m["q_kv_gb"] = kv_gb(manifest["model"], m["mean_history_tokens"])
    m["tau_s"] = ratio(m["duration_s"], tokens, "no-output-tokens")
    return m


def weight_bytes(model):
    """Bytes of dense weights read once an iteration; the embedding look-up is left out."""
    if model.get("moe"):
        return Missing("moe-model")
    if model.get("decode_weight_bytes") is not None:
        return model["decode_weight_bytes"]
    needed = ["weight_bytes_per_param", "total_params", "tied_embeddings", "vocab_size", "hidden_size"]
    if any(model.get(key) is None for key in needed):
        return Missing("no-geometry")
    unread = 0 if model["tied_embeddings"] else model["vocab_size"] * model["hidden_size"]
    return model["weight_bytes_per_param"] * (model["total_params"] - unread)


def kv_gb(model, mean_history):
    if isinstance(mean_history, Missing):
        return mean_history
    needed = ["layers", "kv_heads", "head_dim", "kv_bytes_per_value"]
    if any(model.get(key) is None for key in needed):
        return Missing("no-geometry")
    bytes_per_token = 2 * model["layers"] * model["kv_heads"] * model["head_dim"] * model["kv_bytes_per_value"]
    return bytes_per_token * (mean_history + 1) / 1e9


def analyze_run(folder):
    """(run_id, metrics, per-request rows or None, error or None) of one run folder."""
    try:
        manifest = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        run_id, kind = manifest["run_id"], manifest["kind"]
        if kind not in ("serving", "decode"):
            return run_id, {}, None, None
        power = read_table(folder / "power.parquet", POWER_COLUMNS)
        if power is None:
            power = pd.DataFrame(columns=list(POWER_COLUMNS))
        if kind == "decode":
            steps = read_table(folder / "steps.parquet", STEP_COLUMNS)
            return run_id, decode_metrics(manifest, power, steps), None, None
        requests = read_table(folder / "requests.parquet", REQUEST_COLUMNS)
        return run_id, *serving_metrics(manifest, power, requests), None
    except Exception as error:  # One broken run must not stop the others.
        return folder.name, {}, None, f"{folder}: {type(error).__name__}: {error}"


# --- Hand-worked cases ---------------------------------------------------------------------------------


def seconds(*values):
    """Seconds after an epoch that float64 cannot hold to the nanosecond, as int64 ns."""
    return 1_750_000_000_123_456_789 + (np.array(values, dtype=float) * 1e9).astype(np.int64)


def stamp(second):
    return pd.Timestamp(int(seconds(second)[0]), tz="UTC").isoformat()


def power_rows(device, times, power_w, energy_j=None):
    energy_j = [np.nan] * len(times) if energy_j is None else energy_j
    return pd.DataFrame(
        {"t": seconds(*times), "source": "nvml", "device": device, "power_w": power_w, "energy_j": energy_j}
    )


def request_table(*rows):
    """Rows (request_id, t_send, t_first_token, t_end, output_tokens, itl in s or None)."""
    table = pd.DataFrame(rows, columns=["request_id", "t_send", "t_first_token", "t_end", "output_tokens", "itl_ns"])
    for name in ("t_send", "t_first_token", "t_end"):
        table[name] = pd.array(seconds(*table[name]), dtype="Int64")
    gaps = [None if g is None else (np.array(g) * 1e9).astype(np.int64) for g in table["itl_ns"]]
    table["itl_ns"] = pd.Series(gaps, dtype=object)
    table["output_tokens"] = table["output_tokens"].astype("Int64")
    return table.assign(stage="formal", status="ok", itl_tokens=None).assign(
        ttft_ns=pd.array([pd.NA] * len(table), dtype="Int64"), e2e_ns=pd.array([pd.NA] * len(table), dtype="Int64")
    )


def serving_manifest(stages, **source):
    source = {"id": "nvml", "scope": "gpu-board", "reading": "instant", "nominal_interval_ms": 1000, **source}
    return {
        "run_id": "case", "kind": "serving", "power_sources": [source],
        "stages": {name: stamp(second) for name, second in stages.items()},
    }


def expect(name, found, wanted):
    same = found == wanted if isinstance(wanted, (str, bool)) else not isinstance(found, Missing) and bool(
        np.allclose(found, wanted, rtol=1e-12, atol=0)
    )
    print(f"{'ok  ' if same else 'FAIL'} {name}: {found!r}" + ("" if same else f", expected {wanted!r}"))
    return same


def energy_cases():
    # Power 100, 200, 200, 0 W at 0, 1, 2, 3 s. Window [0.5, 2.5]: P(0.5) = 150, P(2.5) = 100;
    # 0.5·(150+200)/2 + 200 + 0.5·(200+100)/2 = 87.5 + 200 + 75 = 362.5 J.
    # The time 1 s is there twice (150 and 250 W: mean 200); −1 W and NaN are no samples.
    rows = power_rows("gpu0", [3, 1, 0, 1, 1.5, 2, 1.7], [0, 150, 100, 250, -1, 200, np.nan])
    sources = serving_manifest({})["power_sources"]
    both = device_set(rows, sources, ("gpu-board",))
    yield expect("trapezoid", both.energy("trapezoid", *seconds(0.5, 2.5)), 362.5)
    # Three samples lie in [0.5, 5.5] (1, 2, 3 s): max_gap 3 s. The last sample's 0 W is held for 2.5 s:
    # 87.5 + 200 + 100 + 0 = 387.5 J. To 6.1 s it would be 3.1 s.
    yield expect("edge held", both.energy("trapezoid", *seconds(0.5, 5.5)), 387.5)
    yield expect("edge too far", both.energy("trapezoid", *seconds(0.5, 6.1)), "not-covered")
    # As a step function: 0.5·100 + 200 + 0.5·200 = 350 J.
    held = device_set(rows, [{**sources[0], "interpolation": "hold"}], ("gpu-board",))
    yield expect("hold", held.energy("trapezoid", *seconds(0.5, 2.5)), 350.0)
    # Counter 0, 60, 20, 80 J; a reset counts as nothing: from 0.5 s (30 J) to 2.5 s, 30 + 0 + 30 = 60 J.
    # With a wrap at 100 J the middle second holds 60 J: 120 J.
    rows = power_rows("gpu0", [0, 1, 2, 3], [60] * 4, [0, 60, 20, 80])
    reset = device_set(rows, sources, ("gpu-board",))
    yield expect("counter reset", reset.energy("counter", *seconds(0.5, 2.5)), 60.0)
    wrap = device_set(rows, [{**sources[0], "counter_wrap_j": 100}], ("gpu-board",))
    yield expect("counter wrap", wrap.energy("counter", *seconds(0.5, 2.5)), 120.0)
    # A clock one second late, brought back.
    late = device_set(rows, [{**sources[0], "clock_offset_ns": -1_000_000_000}], ("gpu-board",))
    yield expect("clock offset", late.energy("counter", *seconds(-1, 0)), 60.0)


def attribution_cases():
    # Constant 100 W over a formal window of 10 s. Request a: even, 4 tokens over (1, 5], 1 token/s. Request b: gaps
    # of 1 and 3 s, tokens at 3, 4 and 7 s. Request c: one token at the instant 9 s.
    # Intervals and tokens: (0,1] none; (1,3] a 2; (3,5] a 2, b 2 (the first token at 3 and that at 4); (5,7] b 1;
    # (7,9] none; (9,10] c 1. a: 200 + 100 = 300 J, b: 100 + 200 = 300 J, c: 100 J, unattributed 100 + 200 = 300 J.
    manifest = serving_manifest({"formal_start": 0, "formal_end": 10})
    power = power_rows("gpu0", range(11), [100.0] * 11)
    requests = request_table(
        ("a", 0.5, 1, 5, 4, None), ("b", 2.0, 3, 7, 3, [1, 3]), ("c", 8.0, 9, 9, 1, None),
    )
    m, rows = serving_metrics(manifest, power, requests)
    for request, wanted in (("a", 300.0), ("b", 300.0), ("c", 100.0)):
        yield expect(f"energy of {request}", float(rows.set_index("request_id")["energy_j"][request]), wanted)
    yield expect("unattributed", m["unattributed_energy_j"], 300.0)
    yield expect("J/token", m["formal_j_per_token"], 1000 / 8)
    # TTFT 0.5, 1, 1 s; TPOT a 4/3 s, b 4/2 s: median 5/3 s; sample std of ITL {1, 3} s = sqrt(2) s.
    yield expect("TTFT p50", m["ttft_p50_ms"], 1000.0)
    yield expect("TPOT p50", m["tpot_p50_ms"], 5000 / 3)
    yield expect("ITL std", m["itl_std_ms"], 1000 * 2**0.5)
    yield expect("steady", m["steady_j_per_token"], "too-few-requests")
    # (2, 8]: 3 of a's 4 tokens, b's three.
    yield expect("tokens within", Generation(requests, chunks(requests)).tokens_within(*seconds(2, 8)), 6.0)


def lifecycle_cases():
    # 50 W idle for 10 s, 500 W from 11 to 309 s, then idle but for 60 W at 320 s (20% off); samples each second.
    # From 310 s the hold of 30 s is broken at 320 s; from 321 s it stands until 351 s, before 360 s.
    # 260 requests of 10 tokens, one a second from 20 s, each generating alone over its second: 500 J, 50 J/token. The
    # first one has 1 token instead: 500 J/token. Windows from 1 on have CV 0, so the steady window starts at
    # request 1, at the end of request 0: 21 s. To formal_end at 280 s: 259 s · 500 W, 259 · 10 tokens: 50 J/token.
    times = np.arange(0, 361)
    watts = np.where((times >= 11) & (times <= 309), 500.0, 50.0)
    watts[320] = 60.0
    stages = {
        "idle_start": 0, "idle_end": 10, "launch": 10, "formal_start": 20, "formal_end": 280,
        "process_exit": 305, "monitor_end": 360,
    }
    requests = request_table(
        *((f"r{i:03}", 20 + i, 20 + i, 21 + i, 1 if i == 0 else 10, None) for i in range(260))
    )
    m, _ = serving_metrics(serving_manifest(stages), power_rows("gpu0", times, watts), requests)
    yield expect("idle power", m["idle_power_w"], 50.0)
    yield expect("release end", m["release_end"], int(seconds(321)[0]))
    # [10, 20]: (50+500)/2 + 9·500 J. [280, 321]: 29·500 + (500+50)/2 + 9·50 + 2·(50+60)/2 J over 41 s.
    yield expect("startup", m["startup_energy_j"], 4775.0)
    yield expect("release", m["release_energy_j"], 14500.0 + 275 + 450 + 110)
    yield expect("steady start", m["steady_start"], int(seconds(21)[0]))
    yield expect("steady first request", m["steady_first_request"], 1)
    yield expect("steady J/token", m["steady_j_per_token"], 50.0)
    yield expect("counter", m["formal_energy_counter_j"], "no-counter")
    short = serving_manifest({**stages, "monitor_end": 350})
    m, _ = serving_metrics(short, power_rows("gpu0", times, watts), requests)
    yield expect("release not closed", m["release_closed"], False)
    yield expect("lifecycle", m["lifecycle_energy_j"], "release-not-closed")


def decode_cases():
    # Steps end at 1, 2, 3 s; the one that ends at 4.5 s is outside [0, 4]. T = 4 + 4 + 8 = 16 tokens,
    # S = 1 + 1 + 2 = 4, B_eff 4; history (400 + 404 + 828)/16 = 102. 300 W · 4 s = 1200 J: 75 J/token.
    # Weights: 2 B · (1000 − 10·5) = 1900 B over 4 tokens: 475 B/token; K_KV = 2·2·1·8·2 = 64 B, · 103 = 6592 B/token.
    # tau = 4/16 s.
    manifest = {
        "run_id": "case", "kind": "decode", "power_sources": serving_manifest({})["power_sources"],
        "stages": {"decode_start": stamp(0), "decode_end": stamp(4)},
        "model": {
            "total_params": 1000, "tied_embeddings": False, "vocab_size": 10, "hidden_size": 5,
            "weight_bytes_per_param": 2, "layers": 2, "kv_heads": 1, "head_dim": 8, "kv_bytes_per_value": 2,
        },
    }
    steps = pd.DataFrame({
        "t_start": pd.array(seconds(0, 1, 2, 3.5), dtype="Int64"),
        "t_end": pd.array(seconds(1, 2, 3, 4.5), dtype="Int64"),
        "iterations": pd.array([1, None, 2, 1], dtype="Int64"), "new_tokens": pd.array([4, 4, 8, 4], dtype="Int64"),
        "history_tokens": pd.array([400, 404, 828, 412], dtype="Int64"),
    })
    m = decode_metrics(manifest, power_rows("gpu0", range(6), [300.0] * 6), steps)
    wanted = {
        "tokens": 16, "iterations": 4, "duration_s": 4.0, "energy_j": 1200.0, "j_per_token": 75.0, "b_eff": 4.0,
        "mean_history_tokens": 102.0, "q_w_gb": 475e-9, "q_kv_gb": 6592e-9, "tau_s": 0.25,
    }
    for name, value in wanted.items():
        yield expect(name, m[name], value)


def self_test():
    passed = [ok for case in (energy_cases, attribution_cases, lifecycle_cases, decode_cases) for ok in case()]
    print(f"{sum(passed)} of {len(passed)} passed")
    return 0 if all(passed) else 1


# --- Program ------------------------------------------------------------------------------------------


def run_folders(archive):
    return sorted(Path(where) for where, _, files in os.walk(archive) if "run.json" in files)


def as_text(value):
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value))


def write_metrics(path, results):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["run_id", "metric", "value", "reason"])
        for run_id, metrics, _, _ in results:
            for name, value in metrics.items():
                missing = isinstance(value, Missing)
                out.writerow([run_id, name, "" if missing else as_text(value), value if missing else ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", nargs="?", type=Path, help="folder with runs (each a folder with run.json)")
    parser.add_argument("--out", type=Path, help="CSV to write: run_id, metric, value, reason")
    parser.add_argument("--per-request", type=Path, help="CSV to write: one row a formal request")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--self-test", action="store_true", help="check hand-worked cases and stop")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    if args.archive is None or args.out is None:
        parser.error("ARCHIVE and --out are needed")
    folders = run_folders(args.archive)
    if not folders:
        print(f"no run.json under {args.archive}", file=sys.stderr)
        return 3
    if args.jobs > 1:
        with ProcessPoolExecutor(args.jobs) as pool:
            results = list(pool.map(analyze_run, folders))
    else:
        results = [analyze_run(folder) for folder in folders]
    write_metrics(args.out, results)
    if args.per_request:
        tables = [rows for _, _, rows, _ in results if rows is not None and len(rows)]
        empty = pd.DataFrame(columns=["run_id", "request_id", "energy_j", "j_per_token", "order", "window_cv"])
        (pd.concat(tables) if tables else empty).to_csv(args.per_request, index=False, lineterminator="\n")
    errors = [error for _, _, _, error in results if error]
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
