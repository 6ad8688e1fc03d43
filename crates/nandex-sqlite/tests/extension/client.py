"""A stock SQLite that loads the extension: python3 client.py EXTENSION ACTION ARGUMENTS."""

import os
import random
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../nandex-sqlite-model/src"))
from server import CANNOT, load  # noqa: E402,F401


def uri(name, image, options="sync=0&size=16M"):
    return f"file:{name}?vfs=nandex&device={image}&{options}"


def open_database(name, image, options="sync=0&size=16M"):
    return sqlite3.connect(uri(name, image, options), uri=True, isolation_level=None)


def stats(database):
    text = database.execute("PRAGMA nandex_stats").fetchone()[0]
    return dict(line.split(" ", 1) for line in text.splitlines())


def rows_of(database):
    """Every row of every table: its length and beginning."""
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
    sql = "SELECT a, length(v), substr(v, 1, 3) FROM "
    return {name: database.execute(sql + name + " ORDER BY a").fetchall() for (name,) in tables}


def much(draw):
    """A statement that changes much."""
    series = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d)"
    return draw.choice([
        "DELETE FROM t WHERE a % 2", "DELETE FROM t", "DROP TABLE t", "UPDATE t SET v = randomblob(length(v))",
        f"UPDATE t SET v = randomblob({draw.randrange(100, 1600)})", "CREATE INDEX IF NOT EXISTS i ON t(v)",
        f"INSERT INTO t {series % draw.randrange(50, 2000)} SELECT NULL, randomblob(950) FROM n",
    ])


def refuses(folder, lives):
    """Statements that are refused on volumes that are nearly full leave nothing behind."""
    tried = refused = 0
    for seed in range(int(lives)):
        draw = random.Random(seed)
        image, size = f"{folder}/{seed}.img", f"sync=0&size={draw.choice([2, 3, 4])}M"
        journal = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"][seed % 4]
        before = [f"PRAGMA page_size={draw.choice([1024, 2048, 2048, 4096])}", f"PRAGMA journal_mode={journal}",
                  f"PRAGMA secure_delete={draw.choice([0, 1])}", f"PRAGMA cache_size={draw.choice([10, 40, -2000])}",
                  f"PRAGMA locking_mode={draw.choice(['NORMAL', 'NORMAL', 'EXCLUSIVE'])}"]

        def opened():
            database = open_database("d.db", image, size)
            for pragma in before:
                database.execute(pragma)
            return database

        database = opened()
        database.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, v)")
        database.execute("CREATE TABLE u(a INTEGER PRIMARY KEY, v)")
        most, at_most = draw.randrange(300, 3500), 100
        while most > 0 and at_most > 0:
            try:
                database.execute("BEGIN")
                database.executemany("INSERT INTO t VALUES(NULL, randomblob(950))", [()] * min(at_most, most))
                database.execute("COMMIT")
                most -= at_most
            except sqlite3.OperationalError:
                at_most //= 4
                if database.in_transaction:
                    database.execute("ROLLBACK")
        expected = rows_of(database)
        for _ in range(4):
            script = ["VACUUM"]
            if draw.randrange(5):
                script = ["BEGIN", much(draw), "SAVEPOINT s", much(draw), "ROLLBACK TO s", much(draw), "COMMIT"]
            if draw.randrange(3):
                script = [much(draw)]
            tried += 1
            try:
                for statement in script:
                    database.execute(statement)
                expected = rows_of(database)
                continue
            except sqlite3.OperationalError as error:
                assert "full" in str(error) or "no such table" in str(error), (seed, script, error)
                refused += "full" in str(error)
                if database.in_transaction:
                    database.execute("ROLLBACK")
            where = (seed, before, script)
            assert rows_of(database) == expected, where
            if "EXCLUSIVE" not in before[-1]:
                other = opened()
                assert rows_of(other) == expected, where
                other.close()
            database.execute("INSERT INTO u VALUES(NULL, 'y')")
            expected = rows_of(database)
            if draw.randrange(2):
                database.close()
                database = opened()
                assert rows_of(database) == expected, where
        database.close()
    print(f"{refused} of {tried} refused")


def works(image):
    """The recipes: two databases on one image, one of them beside an ordinary one, journals, VACUUM, errors."""
    database = open_database("a.db", image, "size=4M")
    database.execute("PRAGMA page_size=2048")
    assert database.execute("PRAGMA journal_mode=MEMORY").fetchone() == ("memory",)
    database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
    database.execute("INSERT INTO t VALUES(1, 'one')")
    told = stats(database)
    assert told["commits"] == told["groups"] == "2", told
    assert told["best_page_size"] == "2048" and told["batches"] == "0", told
    has_batches = ("ENABLE_BATCH_ATOMIC_WRITE",) in database.execute("PRAGMA compile_options").fetchall()
    assert told["batch_atomic"].startswith("yes" if has_batches else "no"), told
    database.execute("ATTACH ? AS b", (uri("b.db", image, "sync=0&size=4M"),))
    database.execute("BEGIN")
    database.execute("CREATE TABLE b.u AS SELECT * FROM t")
    database.execute("DELETE FROM t")
    database.execute("ROLLBACK")
    database.execute("CREATE TABLE b.u AS SELECT * FROM t")
    database.close()

    ordinary = sqlite3.connect(":memory:", uri=True, isolation_level=None)
    ordinary.execute("ATTACH ? AS flash", (uri("b.db", image, "sync=0&size=4M"),))
    assert ordinary.execute("SELECT v FROM flash.u").fetchall() == [("one",)]
    ordinary.execute("CREATE TABLE flash.w AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)"
                     " SELECT i, randomblob(500) AS x FROM n")
    ordinary.execute("DROP TABLE flash.w")
    ordinary.execute("VACUUM flash")
    ordinary.execute("INSERT INTO flash.u VALUES(2, 'two')")
    assert int(stats_of(ordinary, "flash")["trimmed_pages"]) > 100
    assert ordinary.execute("PRAGMA flash.integrity_check").fetchone() == ("ok",)
    ordinary.close()
    again = open_database("b.db", image, "sync=0&size=4M")
    assert again.execute("SELECT count(*) FROM u").fetchone() == (2,)
    again.close()
    ordinary = sqlite3.connect(":memory:", uri=True, isolation_level=None)
    ordinary.execute("CREATE TABLE t AS SELECT 5 AS v")
    ordinary.execute("VACUUM INTO ?", (uri("copy.db", image, "sync=0&size=4M"),))
    ordinary.execute("ATTACH ? AS copy", (uri("copy.db", image, "sync=0&size=4M"),))
    assert ordinary.execute("SELECT v FROM copy.t").fetchall() == [(5,)]
    assert ordinary.execute("PRAGMA copy.nandex_files").fetchall() == [("a.db\nb.db\ncopy.db",)]
    assert ordinary.execute("PRAGMA copy.nandex_remove='a.db'").fetchall() == [("removed",)]
    ordinary.close()
    for wrong in (uri("a.db", "sim:abacus"), "file:a.db?vfs=nandex", uri("a.db", __file__),
                  uri("a.db", image + ".none", "create=0")):
        try:
            sqlite3.connect(wrong, uri=True)
        except sqlite3.OperationalError:
            continue
        raise AssertionError(f"{wrong} was opened")
    print("works")


def tells(folder):
    """Every mistake has a text of its own, which is one call away."""
    plain = f"{folder}/plain.db"
    database = sqlite3.connect(plain)
    assert database.execute("SELECT nandex_error()").fetchone() == (None,)
    database.execute("CREATE TABLE t(v)")
    database.close()
    with open(f"{folder}/letter", "w") as letter:
        letter.write("Dear Sir")
    image = f"{folder}/chip.img"
    open_database("a.db", image, "size=4M").execute("CREATE TABLE t(v)").connection.close()
    mistakes = {
        "a text": uri("a.db", f"{folder}/letter", "size=4M"), "a plain database": uri("a.db", plain, "size=4M"),
        "no device": "file:a.db?vfs=nandex", "no folder": uri("a.db", f"{folder}/no/chip.img", "size=4M"),
        "too small": uri("a.db", f"{folder}/new.img", "size=64"), "no part": uri("a.db", "sim:abacus", ""),
        "no image": uri("a.db", f"{folder}/none.img", "create=0"), "no file": uri("a.db", "/dev/null", "size=4M"),
        "a key": uri("a.db", image, "sise=4M"), "a value": uri("a.db", image, "size=banana"),
        "another size": uri("a.db", image, "size=8M"),
    }
    texts = {}
    for what, name in mistakes.items():
        try:
            sqlite3.connect(name, uri=True).execute("SELECT 1 FROM t")
        except sqlite3.OperationalError:
            told = sqlite3.connect(":memory:").execute("SELECT nandex_error()").fetchone()[0]
            assert told and told not in texts, f"{what}: {told} is told of {texts.get(told)}, too"
            texts[told] = what
            continue
        raise AssertionError(f"{what}: {name} was opened")
    print("\n".join(f"{what}: {told}" for told, what in texts.items()))


def stats_of(database, schema):
    text = database.execute(f"PRAGMA {schema}.nandex_stats").fetchone()[0]
    return dict(line.split(" ", 1) for line in text.splitlines())


def simulates():
    """A chip in memory, of a part of the catalogue; it stays as long as the process."""
    database = open_database("a.db", "sim:mlc-64m", "")
    database.execute("CREATE TABLE t(v)")
    database.close()
    database = open_database("a.db", "sim:mlc-64m", "")
    database.execute("INSERT INTO t VALUES(1)")
    told = stats(database)
    assert told["best_page_size"] == "4096" and int(told["page_programs"]) > 0, told
    print("works")


if __name__ == "__main__":
    load(sys.argv[1])
    actions = {"works": works, "simulates": simulates, "refuses": refuses, "tells": tells}
    actions[sys.argv[2]](*sys.argv[3:])
