"""Python's sqlite3 on an image of a chip: python3 notes.py EXTENSION IMAGE TEXT.

Adds a note, and prints all notes and what the commit cost. `make sqlite-extension` builds the extension.
"""

import sqlite3
import sys

if len(sys.argv) != 4:
    print("usage: notes.py EXTENSION IMAGE TEXT (make sqlite-extension builds the extension)", file=sys.stderr)
    sys.exit(2)
extension, image, text = sys.argv[1:]

loader = sqlite3.connect(":memory:")
if not hasattr(loader, "enable_load_extension"):
    sys.exit("notes.py: this Python was built without loading extensions; that of the distribution, /usr/bin/python3, mostly can")
loader.enable_load_extension(True)
try:
    loader.load_extension(extension)  # for every connection of this process
except sqlite3.Error as error:
    sys.exit(f"notes.py: cannot load {extension}: {error}")


def programs(database):
    rows = database.execute("PRAGMA nandex_stats").fetchone()[0].splitlines()
    return int(dict(row.split(" ", 1) for row in rows)["page_programs"])


def note():
    database = sqlite3.connect(f"file:notes.db?vfs=nandex&device={image}&size=16M", uri=True)
    database.execute("PRAGMA page_size=2048")  # that of the chip; before the first table
    database.execute("CREATE TABLE IF NOT EXISTS note(text)")
    before = programs(database)
    with database:  # commits: in the image when the block ends
        database.execute("INSERT INTO note VALUES(?)", (text,))
    print(*(row[0] for row in database.execute("SELECT text FROM note ORDER BY rowid")), sep="\n")
    print(f"{programs(database) - before} pages programmed", file=sys.stderr)
    database.close()


try:
    note()
except sqlite3.Error as error:
    why = loader.execute("SELECT nandex_error()").fetchone()[0]
    sys.exit(f"notes.py: {error}: {why}")
