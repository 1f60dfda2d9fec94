"""A plain call over HTTP beside the three bare requests that it takes, run in turns on one machine.

    cargo build --release && tests/setup && python3 tests/bench/echo_over_http.py

Prints the median of each, their ratio, and the most memory that the program held.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / ".servers/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
PROGRAM = ROOT / "target/release/mcp-task"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 40


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def bare(url, folder):
    """initialize, initialized and tools/call, each by a curl of its own."""
    head = ["curl", "-sS", "-X", "POST", url, "-H", "Content-Type: application/json"]
    head += ["-H", "Accept: application/json, text/event-stream"]
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}'
    headers = os.path.join(folder, "headers")
    subprocess.run([*head, "-D", headers, "-d", hello], check=True, stdout=subprocess.DEVNULL)
    lines = Path(headers).read_text().splitlines()
    session = next(line.split(": ", 1)[1] for line in lines if line.lower().startswith("mcp-session-id"))
    head += ["-H", f"Mcp-Session-Id: {session}"]
    ready = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    subprocess.run([*head, "-d", ready], check=True, stdout=subprocess.DEVNULL)
    call = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}'
    said = subprocess.run([*head, "-d", call], check=True, capture_output=True, text=True).stdout
    assert "Echo: hi" in said, said


def ours(url):
    """From the start to the result on stdout, and to the end of the program."""
    start = time.perf_counter()
    command = [PROGRAM, "-s", url, "call", "echo", "message=hi"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    result = time.perf_counter() - start
    assert line == "Echo: hi\n", line
    # The kernel's own high-water mark of the running program; what wait4 tells counts the parent's memory before exec.
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        held = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        held = 0
    process.wait()
    end = time.perf_counter() - start
    process.stdout.close()
    return result, end, held


def timed(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main():
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    environment = {**os.environ, "PORT": str(port)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(["node", SERVER, "streamableHttp"], env=environment, **quiet)
    try:
        with tempfile.TemporaryDirectory() as folder:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            for _ in range(5):
                bare(url, folder)
                ours(url)
            bares, results, ends, held = [], [], [], []
            for _ in range(ROUNDS):
                bares.append(timed(bare, url, folder))
                result, end, kibibytes = ours(url)
                held.append(kibibytes / 1024)
                results.append(result)
                ends.append(end)
    finally:
        server.terminate()
        server.wait()
    median = statistics.median(bares)
    print(f"three bare requests  {median * 1000:6.1f} ms")
    for name, times in [("start to result", results), ("start to end", ends)]:
        ours_median = statistics.median(times)
        print(f"mcp-task, {name:<15} {ours_median * 1000:6.1f} ms   ratio {ours_median / median:.2f}")
    print(f"most memory held     {max(held):6.1f} MiB")


if __name__ == "__main__":
    main()
