"""Python's own tests of its sqlite3 module, with every database in memory made one on raw flash instead:
python3 suite.py EXTENSION.

The tests come with Python, or with the package libpython3-testsuite of the distribution; exit code 77 where they,
or a way to load the extension, are missing. What is left out stands in LEFT_OUT with its reason."""

import itertools
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../crates/nandex-sqlite/tests/extension"))
import client  # noqa: E402

LEFT_OUT = {
    # Counts the steps of a backup as a database in memory takes them; on an ordinary file it fails the same.
    "BackupTests.test_modifying_progress",
}


def direct(sqlite3):
    """Each database in memory becomes a file of its own on a chip in memory."""
    numbers = itertools.count()
    connect = sqlite3.connect

    def on_flash(database, *arguments, **named):
        if database == ":memory:" and len(arguments) < 7:
            number = next(numbers)
            database = client.uri(f"{number}.db", "sim:k9f1g08u0f", "sync=0")
            named["uri"] = True
        return connect(database, *arguments, **named)

    sqlite3.connect = on_flash
    return lambda: next(numbers)


def main():
    try:
        import sqlite3
        import test.test_sqlite3 as suite
    except ImportError as error:
        print(error)
        sys.exit(client.CANNOT)
    client.load(sys.argv[1])
    count = direct(sqlite3)
    tests = unittest.TestSuite()
    loaded = unittest.defaultTestLoader.loadTestsFromModule(suite)

    def flat(suite):
        for test in suite:
            yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]

    left_out = 0
    for test in flat(loaded):
        name = ".".join(test.id().split(".")[-2:])
        if name in LEFT_OUT:
            left_out += 1
        else:
            tests.addTest(test)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(tests)
    print(f"{result.testsRun} tests, {left_out} left out, {len(result.failures)} failures, {len(result.errors)} errors, "
          f"{len(result.skipped)} skipped; {count()} databases on flash")
    sys.exit(not result.wasSuccessful())


main()
