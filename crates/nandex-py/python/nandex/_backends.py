"""Where the cells of a sweep run: processes of this machine, Dask, Ray.

A backend takes requests in JSON and calls back with each outcome in JSON. Whatever ends a worker (a signal, a
full memory, a broken node) is one try of the cells that it had; after ``retries`` more the cell has failed.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from typing import Any, Callable, List, Optional, Sequence

from . import _native

Done = Callable[[str], None]


def failed(request: str, why: str) -> str:
    """The outcome of a cell that no worker could run, in JSON."""
    outcome = {
        "schema": 1,
        "key": _native.request_key(request),
        "request": json.loads(request),
        "nandex_version": _native.version(),
        "status": "failed",
        "error": why,
    }
    return json.dumps(outcome)


class Worker:
    """A process with one cell at a time. It needs nothing of the calling program's ``__main__``."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        environment = {**os.environ, "PYTHONPATH": path}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nandex._worker"], stdin=pipe, stdout=pipe, env=environment, text=True
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def run(self, request: str, timeout_s: Optional[float]) -> Optional[str]:
        """The outcome of a cell; None where the process ended instead."""
        assert self._process.stdin and self._process.stdout
        timer = threading.Timer(timeout_s, self._process.kill) if timeout_s else None
        if timer:
            timer.start()
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline().rstrip("\n") or None
        except OSError:
            return None
        finally:
            if timer:
                timer.cancel()

    def end(self) -> int:
        """Ends the process; its code, negative for a signal."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                try:
                    pipe.close()
                except OSError:
                    pass
        return self._process.wait()


class Local:
    """Processes of this machine, each with a thread here that feeds it."""

    def __init__(self, workers: Optional[int]) -> None:
        self.count = workers or os.cpu_count() or 1
        self.workers: List[Worker] = []
        self._stopped = threading.Event()

    def run(self, requests: Sequence[str], done: Done, retries: int, timeout_s: Optional[float]) -> None:
        """Runs every request."""
        todo: "queue.SimpleQueue[tuple[str, int]]" = queue.SimpleQueue()
        for request in requests:
            todo.put((request, 0))
        answers: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        count = min(self.count, len(requests))
        threads = [
            threading.Thread(target=self._feed, args=(todo, answers, retries, timeout_s), daemon=True)
            for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            left = len(requests)
            while left:
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                done(answer)
                left -= 1
        finally:
            self._stopped.set()
            for worker in list(self.workers):
                worker.end()
            for thread in threads:
                thread.join()

    def _feed(self, todo: Any, answers: Any, retries: int, timeout_s: Optional[float]) -> None:
        worker: Optional[Worker] = None
        try:
            while not self._stopped.is_set():
                try:
                    request, tries = todo.get(timeout=0.05)
                except queue.Empty:
                    # Another worker may still give its cell back.
                    continue
                if worker is None:
                    worker = Worker()
                    self.workers.append(worker)
                answer = worker.run(request, timeout_s)
                if self._stopped.is_set():
                    return
                if answer is not None:
                    read = json.loads(answer)
                    answers.put(answer if "schema" in read else failed(request, read["error"]))
                else:
                    self.workers.remove(worker)
                    code, worker = worker.end(), None
                    if tries < retries:
                        todo.put((request, tries + 1))
                    else:
                        why = f"its worker ended ({code}) at each of {tries + 1} tries"
                        answers.put(failed(request, why))
        except BaseException as error:
            answers.put(error)


def _run(request: str) -> str:
    """A cell on a worker of a cluster."""
    return _native.run_cell(request)


class Dask:
    """A Dask cluster; without an address one of this machine."""

    def __init__(self, address: Any, workers: Optional[int]) -> None:
        self._address = address
        self._workers = workers
        self.client: Any = None

    def run(self, requests: Sequence[str], done: Done, retries: int, timeout_s: Optional[float]) -> None:
        """Runs every request."""
        try:
            from distributed import Client, LocalCluster, as_completed
        except ImportError as error:
            raise ImportError("backend='dask' needs dask: pip install 'dask[distributed]'") from error
        is_client = isinstance(self._address, Client)
        cluster = None
        if self._address is None:
            count = self._workers or os.cpu_count() or 1
            cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)
        self.client = self._address if is_client else Client(cluster or self._address)
        try:
            futures = {}
            for request in requests:
                # Not pure: a cell that failed before would be remembered.
                future = self.client.submit(_run, request, retries=retries, pure=False)
                futures[future] = request
            for future in as_completed(list(futures), timeout=None):
                request = futures.pop(future)
                why = future.exception()
                done(future.result() if why is None else failed(request, f"{type(why).__name__}: {why}"))
        finally:
            if not is_client:
                self.client.close()
            if cluster is not None:
                cluster.close()


class Ray:
    """A Ray cluster; without an address one of this machine."""

    def __init__(self, address: Any, workers: Optional[int]) -> None:
        self._address = address
        self._workers = workers

    def run(self, requests: Sequence[str], done: Done, retries: int, timeout_s: Optional[float]) -> None:
        """Runs every request."""
        try:
            import ray
        except ImportError as error:
            raise ImportError("backend='ray' needs ray: pip install ray") from error
        started = not ray.is_initialized()
        if started and self._address is None:
            ray.init(num_cpus=self._workers, include_dashboard=False, log_to_driver=False)
        elif started:
            ray.init(address=self._address)
        try:
            remote = ray.remote(num_cpus=1, max_retries=retries)(_run)
            waiting = {remote.remote(request): request for request in requests}
            while waiting:
                ready, _ = ray.wait(list(waiting), num_returns=1)
                for reference in ready:
                    request = waiting.pop(reference)
                    try:
                        done(ray.get(reference))
                    except ray.exceptions.RayError as error:
                        done(failed(request, f"{type(error).__name__}: {error}"))
        finally:
            if started:
                ray.shutdown()


def find(name: str, address: Any, workers: Optional[int]) -> Any:
    """The backend of this name."""
    if name == "local":
        if address is not None:
            raise _native.RequestError("the backend 'local' has no address")
        return Local(workers)
    if name == "dask":
        return Dask(address, workers)
    if name == "ray":
        return Ray(address, workers)
    raise _native.RequestError(f"there is no backend '{name}'; known: local, dask, ray")
