"""Comparisons, grids, lists and experiments."""

import doctest
import importlib.util
import os
import tempfile
import unittest

import nandex
from nandex import _cells

SMALL = {"workload": "uniform", "options": {"records": 400, "operations": 100}}

EXPERIMENT = """
chip = "mlc-64m"
indexes = ["mu", "bplus"]
[[input]]
name = "drawn"
workload = "uniform"
options = { records = 400, operations = 100 }
[[variant]]
name = "small"
blocks = 64
"""


def has(library):
    return importlib.util.find_spec(library) is not None


class Cells(unittest.TestCase):
    def test_a_comparison_has_a_row_for_each_set_up(self):
        table = nandex.compare(index=["mu", "bplus"], ram=["64KiB", 1 << 20], seed=range(1, 3), **SMALL)
        self.assertEqual(len(table), 8)
        self.assertEqual({row["status"] for row in table if row["ram"] == 1 << 20}, {"done"})
        self.assertEqual(table[0]["commit"], nandex.commit())
        for row in table:
            if row["status"] == "done":
                self.assertEqual(row["operations"], 100)
                self.assertGreater(row["flash_time_ns"], 0)
            else:
                self.assertIn("RAM", row["error"])
        self.assertEqual(table["index"].count("mu"), 4)
        self.assertIn("<td>mu</td>", table._repr_html_())
        self.assertEqual(table[:2].columns, table.columns)

    def test_one_set_up_in_detail(self):
        results = nandex.details("mu", **SMALL)
        run = results["runs"][0]
        self.assertEqual([phase["measured"] for phase in run["phases"]], [False, True])
        row = nandex.compare("mu", **SMALL)[0]
        self.assertEqual(run["phases"][1]["total"]["flash_time_ns"], row["flash_time_ns"])
        with self.assertRaises(nandex.RequestError):
            nandex.details("mu", seed=[1, 2], **SMALL)

    def test_what_makes_no_sense_is_refused_by_name(self):
        for wrong, words in [
            (dict(index="nonsense"), "there is no index 'nonsense'; known: mu, mu-star"),
            (dict(index="mu", chip="mlc"), "there is no chip 'mlc'"),
            (dict(index="mu", options={"recrods": 1}), "option 'recrods'"),
            (dict(index="mu", ram="64KB"), "'KB' may mean two sizes"),
            (dict(index=[]), "empty list"),
        ]:
            with self.assertRaises(nandex.RequestError) as caught:
                nandex.grid(**wrong)
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(TypeError):
            nandex.compare("mu", rma=5)

    def test_a_trace_of_ones_own(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.txt")
            with open(path, "w") as file:
                file.write("".join(f"insert {n}\n" for n in range(50)) + "get 7\n")
            row = nandex.compare("mu", trace=path)[0]
            self.assertEqual((row["status"], row["operations"], row["records"]), ("done", 51, 50))
            with open(path, "a") as file:
                file.write("fly 3\n")
            row = nandex.compare("mu", trace=path)[0]
            self.assertEqual(row["status"], "failed")
            self.assertIn("line 52: there is no operation 'fly'", row["error"])

    def test_lists_name_what_there_is(self):
        self.assertIn("mu", nandex.indexes()["name"])
        self.assertIn("dftl", nandex.ftls()["name"])
        self.assertIn("ycsb-a", nandex.workloads()["name"])
        chips = {chip["name"]: chip for chip in nandex.chips()}
        self.assertEqual(chips["w25n01gv"]["page_bytes"], 2048)
        self.assertIn("mu-table5", nandex.experiments()["name"])

    def test_an_experiment_runs_from_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.toml")
            with open(path, "w") as file:
                file.write(EXPERIMENT)
            out = os.path.join(folder, "out")
            found = nandex.run(path, seeds=2, set={"variant.small.key_bytes": 8}, out=out)
            self.assertEqual(found.failures(), [])
            figures = [row for row in found.table() if row["figure"] == "run.flash_time_ms_per_op"]
            self.assertEqual([row["contender"] for row in figures], ["mu", "bplus"])
            self.assertGreater(figures[0]["ci95"], 0)
            self.assertEqual(found.pairs()[0]["contender"], "bplus")
            self.assertIn("summary.csv", os.listdir(out))
            with self.assertRaisesRegex(nandex.RequestError, "mine.toml: line"):
                nandex.run(path, set={"chip": 5})

    def test_advice_names_an_index_or_says_that_none_can_run(self):
        few = {"workload": "uniform", "options": {"records": 100, "operations": 50}, "seeds": 1}
        found = nandex.advise("mlc-64m", ram=2000, **few)
        self.assertIsNone(found["answer"])
        self.assertGreater(len(found["refused"]), 20)
        with self.assertRaisesRegex(nandex.RequestError, "unknown field `rma`"):
            nandex.advise(rma=5)
        if os.environ.get("NANDEX_PY_FULL") == "1":
            self.assertIn(nandex.advise(ram=65536, **few)["answer"]["index"], nandex.indexes()["name"])

    def test_other_libraries_get_the_table(self):
        table = nandex.compare("mu", ram=["1MiB"], **SMALL)
        self.assertEqual(list(table.to_dict()), table.columns)
        if has("pandas"):
            self.assertEqual(table.to_pandas().loc[0, "operations"], 100)
        if has("pyarrow"):
            self.assertEqual(table.to_arrow().column("operations").to_pylist(), [100])
        if has("polars"):
            self.assertEqual(table.to_polars()["operations"].to_list(), [100])
        if not has("polars"):
            with self.assertRaisesRegex(ImportError, "pip install polars"):
                table.to_polars()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.csv")
            table.to_csv(path)
            with open(path) as file:
                self.assertEqual(file.readline().strip().split(","), table.columns)

    def test_examples_in_docstrings(self):
        for module in (nandex, _cells):
            self.assertEqual(doctest.testmod(module).failed, 0)


if __name__ == "__main__":
    unittest.main()
