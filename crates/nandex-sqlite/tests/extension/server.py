"""A SQLite that does what it is told, a line each: python3 server.py EXTENSION."""

import sqlite3
import sys

from client import load


def answer(database, request):
    """The database, and the rows of a request."""
    verb, _, rest = request.partition(" ")
    if verb == "open":
        return sqlite3.connect(rest, uri=True, isolation_level=None), []
    if verb == "close":
        database.close()
        return None, []
    if verb == "backup":
        uri, _, first = rest.partition(" ")
        copy = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            copy.execute(first)
            database.backup(copy, pages=7)
        finally:
            copy.close()
        return database, []
    rows = database.execute(rest).fetchall()
    return database, ["" if row[0] is None else str(row[0]) for row in rows]


def main():
    load(sys.argv[1])
    print("ready", flush=True)
    database = None
    for line in sys.stdin:
        try:
            database, rows = answer(database, line.rstrip("\n"))
            told, lines = f"ok {sum(row.count(chr(10)) + 1 for row in rows)}", rows
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or "is full" in str(error)
            told, lines = ("full " if full else "no ") + str(error).replace("\n", " "), []
        state = "in" if database is not None and database.in_transaction else "out"
        print("\n".join([f"{state} {told}", *lines]), flush=True)


main()
