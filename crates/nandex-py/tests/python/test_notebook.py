"""The notebook, cell after cell."""

import importlib.util
import json
import os
import pathlib
import tempfile
import unittest

NOTEBOOK = pathlib.Path(__file__).parents[2] / "examples" / "tour.ipynb"


class Notebook(unittest.TestCase):
    def test_it_is_whole(self):
        with open(NOTEBOOK) as file:
            cells = json.load(file)["cells"]
        kinds = [cell["cell_type"] for cell in cells]
        self.assertGreaterEqual(kinds.count("code"), 5)
        for cell in cells:
            if cell["cell_type"] == "code":
                compile("".join(cell["source"]), str(NOTEBOOK), "exec")

    @unittest.skipUnless(
        all(importlib.util.find_spec(name) for name in ("matplotlib", "pandas")),
        "matplotlib and pandas are not installed",
    )
    def test_it_runs(self):
        os.environ["MPLBACKEND"] = "Agg"
        with open(NOTEBOOK) as file:
            cells = json.load(file)["cells"]
        names = {"__name__": "notebook"}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for number, cell in enumerate(cells):
                    if cell["cell_type"] == "code":
                        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            finally:
                os.chdir(before)
        figure = names["plt"].gcf()
        self.assertTrue(figure.axes, "nothing was drawn")


if __name__ == "__main__":
    unittest.main()
