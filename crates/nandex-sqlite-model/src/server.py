"""A SQLite that does what it is told, a line each: python3 server.py EXTENSION. See process.rs."""

import ctypes
import sqlite3
import sys

CANNOT = 77


def load(extension):
    """Loads the extension for every connection of the process; stops with CANNOT where this Python cannot."""
    connection = sqlite3.connect(":memory:")
    if hasattr(connection, "enable_load_extension"):
        connection.enable_load_extension(True)
        connection.load_extension(extension)
        return
    # A Python built without loading extensions: its SQLite can, if it is a shared library.
    try:
        library = ctypes.CDLL("libsqlite3.so.0")
        entry = ctypes.CDLL(extension).sqlite3_nandexsqlite_init
    except OSError as error:
        print(error)
        sys.exit(CANNOT)
    library.sqlite3_auto_extension(entry)
    sqlite3.connect(":memory:").close()
    library.sqlite3_cancel_auto_extension(entry)


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
    print(f"ready {sqlite3.sqlite_version}", flush=True)
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


if __name__ == "__main__":
    main()
