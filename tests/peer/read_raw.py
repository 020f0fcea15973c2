"""Reads raw request logs as one would by hand: json into a pandas table, with the usual latencies.

Usage: read_raw.py records|document FILE
"""

import json
import sys

import pandas as pd


def records(path):
    """AIPerf's profile_export.jsonl."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            metadata, metrics = record["metadata"], record["metrics"]
            rows.append(
                {
                    "request_id": metadata["x_request_id"],
                    "t_send": metadata["request_start_ns"],
                    "t_end": metadata["request_end_ns"],
                    "ttft_ms": metrics["time_to_first_token"]["value"],
                    "itl_ms": metrics["inter_chunk_latency"]["value"],
                    "output_tokens": metrics["output_sequence_length"]["value"],
                    "input_tokens": metrics["input_sequence_length"]["value"],
                }
            )
    return pd.DataFrame(rows)


def document(path):
    """ML.ENERGY's results.json."""
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    power = pd.DataFrame(
        [
            (gpu, time, watts)
            for gpu, points in results["timeline"]["power"]["device_instant"].items()
            for time, watts in points
        ],
        columns=["gpu", "time", "power_w"],
    )
    assert len(power)
    table = pd.DataFrame(results["results"])
    return table.drop(columns=["prompt", "output_text"])


def main():
    layout, path = sys.argv[1:]
    table = {"records": records, "document": document}[layout](path)
    assert len(table)
    print(f"{len(table)} requests")


if __name__ == "__main__":
    main()
