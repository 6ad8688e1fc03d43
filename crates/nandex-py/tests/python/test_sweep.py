"""Sweeps whose workers are killed in the middle. NANDEX_PY_FULL=1 takes 200 cells, and Dask besides."""

import contextlib
import importlib.util
import io
import os
import signal
import tempfile
import time
import unittest

import nandex
from nandex import _backends

FULL = os.environ.get("NANDEX_PY_FULL") == "1"


def grid(cells):
    return nandex.grid(
        index=["mu", "bplus"], workload="uniform", ram="1MiB", seed=range(1, cells // 2 + 1),
        options={"records": 2000 if FULL else 300, "operations": 200 if FULL else 50},
    )


class Sweeps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = folder.name
        self.cells = 200 if FULL else 16

    def whole(self, result):
        self.assertEqual((len(result), result.failed().columns), (self.cells, result.columns))
        self.assertEqual({row["status"] for row in result}, {"done"})
        self.assertEqual(len(set(result["key"])), self.cells)

    def resumes(self):
        begin = time.monotonic()
        again = nandex.sweep(grid(self.cells), self.store).run()
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual((again.kept, again.ran), (self.cells, 0))
        self.whole(again)

    def test_a_worker_is_killed_on_this_machine(self):
        killed, seen = [], []
        found = _backends.find

        def look(state):
            seen.append(str(state))
            if state.done == self.cells // 4 and not killed:
                killed.append(backend.workers[0].pid)
                os.kill(killed[0], signal.SIGKILL)

        backend = _backends.Local(2)
        _backends.find = lambda *_: backend
        try:
            result = nandex.sweep(grid(self.cells), self.store).run(progress=look)
        finally:
            _backends.find = found
        self.assertEqual((len(killed), len(seen), result.kept, result.ran), (1, self.cells, 0, self.cells))
        self.assertIn(f"{self.cells} of {self.cells} cells, 0 failed", seen[-1])
        self.whole(result)
        self.resumes()

    def test_a_log_gets_few_lines_about_the_progress(self):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            nandex.sweep(grid(16), self.store).run(progress=True)
        self.assertTrue(told.getvalue().endswith("16 of 16 cells, 0 failed, about 0 s left\n"), told.getvalue())
        self.assertNotIn("\r", told.getvalue())

    def test_a_sweep_that_was_stopped_goes_on(self):
        class Stop(Exception):
            pass

        def look(state):
            if state.done == 3:
                raise Stop

        with self.assertRaises(Stop):
            nandex.sweep(grid(16), self.store).run(workers=1, progress=look)
        again = nandex.sweep(grid(16), self.store).run(workers=1)
        self.assertEqual((again.kept, again.ran), (3, 13))
        files = os.listdir(os.path.join(self.store, "cells"))
        self.assertEqual(len([name for name in files if name.endswith(".json")]), 16)

    def test_a_cell_that_ends_its_worker_has_failed_and_is_tried_again(self):
        # Each worker is ended before it can answer.
        sweep = nandex.sweep(grid(2), self.store)
        result = sweep.run(retries=1, timeout_s=0.0001)
        self.assertEqual([row["status"] for row in result], ["failed"] * 2)
        self.assertIn("at each of 2 tries", result.failed()[0]["error"])
        self.assertEqual(sweep.run().kept, 2)
        again = sweep.run(retry=True)
        self.assertEqual((again.ran, {row["status"] for row in again}), (2, {"done"}))

    def test_the_program_finds_the_same_cells(self):
        path = os.path.join(self.store, "grid.toml")
        with open(path, "w") as file:
            file.write('index = "mu"\nworkload = "uniform"\n[options]\nrecords = 100\noperations = 10\n')
        result = nandex.sweep(path, self.store).run()
        self.assertEqual([row["option.records"] for row in result], ["100"])
        file = os.path.join(self.store, "cells", result[0]["key"] + ".json")
        self.assertTrue(os.path.exists(file))
        with self.assertRaisesRegex(nandex.RequestError, "no backend 'slurm'"):
            nandex.sweep(path, self.store).run("slurm")

    @unittest.skipUnless(FULL and importlib.util.find_spec("distributed"), "Dask is not asked for or not there")
    def test_a_worker_is_killed_on_dask(self):
        killed = []

        def look(state):
            if state.done == self.cells // 4 and not killed:
                pids = list(backend.client.run(os.getpid).values())
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        backend = _backends.Dask(None, 2)
        found = _backends.find
        _backends.find = lambda *_: backend
        try:
            result = nandex.sweep(grid(self.cells), self.store).run(progress=look)
        finally:
            _backends.find = found
        self.assertEqual(len(killed), 1)
        self.whole(result)
        self.resumes()

    @unittest.skipUnless(FULL and importlib.util.find_spec("ray"), "Ray is not asked for or not there")
    def test_cells_run_on_ray(self):
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        self.whole(nandex.sweep(grid(self.cells), self.store).run("ray", workers=2))
        self.resumes()


if __name__ == "__main__":
    unittest.main()
