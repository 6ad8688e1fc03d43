#!/bin/sh
# The shell of SQLite on an image of a chip: notes.sh EXTENSION IMAGE TEXT adds a note and prints all notes; then it copies the database
# to IMAGE.db, an ordinary file. `make sqlite-extension` builds the extension.
set -eu
if [ $# -ne 3 ]; then
    echo "usage: notes.sh EXTENSION IMAGE TEXT (make sqlite-extension builds the extension)" >&2
    exit 2
fi
extension=$1 image=$2 text=$(printf %s "$3" | sed "s/'/''/g")
rm -f "$image.db"
sqlite3 -bail :memory: ".load $extension" \
    ".open 'file:notes.db?vfs=nandex&device=$image&size=16M'" \
    "PRAGMA page_size=2048; CREATE TABLE IF NOT EXISTS note(text); INSERT INTO note VALUES('$text')" \
    "SELECT text FROM note ORDER BY rowid" \
    "VACUUM INTO 'file:$image.db?vfs=unix'"
