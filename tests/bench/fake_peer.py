"""fake_peer.py - answers bench_peers.py as peer_torch.py would, with numbers made up. For test_bench_tools.sh."""

import json
import sys

for line in sys.stdin:
    request = line.split()
    if request[0] == "build":
        mode = request[2]
        if mode == "broken":
            sys.exit("fake_peer: no such mode")
        print(json.dumps({"torch": "made up", "params": 1}), flush=True)
    elif request[0] == "step":
        print(json.dumps({"s": 4.0 if mode == "eager" else 5.0, "loss": 0.7}), flush=True)
    else:
        print(json.dumps({"saved_bytes": 1 << 30, "rss_peak_bytes": 1 << 31}), flush=True)
