#!/usr/bin/env python3
"""Cuts the power at every write that dm-log-writes recorded, and looks for what had been acknowledged.

cuts.py PROGRAMS LOG IMAGE BYTES: IMAGE becomes each state of the device in turn. Marks in the log name the index ("index-NAME", SQLite
"index-sqlite-JOURNAL"), keys that were acknowledged ("key-N"), and where nothing is promised ("leave").
"""

import shutil
import struct
import subprocess
import sys

MAGIC, SECTOR = 0x6A736677736872, 512
DISCARD, MARK = 4, 8


def entries(log):
    magic, version, count, sector = struct.unpack("<QQQI", log.read(SECTOR)[:28])
    if (magic, version, sector) != (MAGIC, 1, SECTOR):
        sys.exit(f"no log of dm-log-writes with sectors of {SECTOR}: {magic:x} {version} {sector}")
    for _ in range(count):
        head = log.read(SECTOR)
        at, sectors, flags, length = struct.unpack("<QQQQ", head[:32])
        if flags & MARK:
            yield flags, at, head[32 : 32 + length].rstrip(b"\0")
        elif flags & DISCARD:
            yield flags, at, bytes(sectors * SECTOR)
        else:
            yield flags, at, log.read(sectors * SECTOR)


def export(programs, image, index):
    """The keys that are there, or None where the index cannot be mounted."""
    if index.startswith("sqlite"):
        # A mount may write.
        copy = shutil.copyfile(image, image + ".copy")
        command = [programs + "/examples/mtd-sqlite", "image:" + copy, "list"]
    else:
        command = [programs + "/nandex", "device", "export", "--device", image, "--index", index]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode != 0:
        return None, found.stderr
    return {line.split(",")[0] for line in found.stdout.splitlines()}, ""


def main():
    programs, log, image, size = sys.argv[1:]
    with open(image, "wb") as state:
        state.truncate(int(size))
    index, promised, cuts = None, set(), 0
    tally = {}
    with open(log, "rb") as log, open(image, "r+b", buffering=0) as state:
        for number, (flags, at, data) in enumerate(entries(log)):
            if flags & MARK:
                word = data.decode().partition("-")[::2]
                if word[0] == "key":
                    promised.add(word[1])
                else:
                    index, promised = (word[1] if word[0] == "index" else None), set()
                continue
            if not data:
                continue
            # Of a write that is cut, the first sectors may be there and the others not.
            for part in (SECTOR, len(data) - SECTOR, len(data)):
                state.seek(at * SECTOR)
                state.write(data[:part])
                if index is None:
                    continue
                keys, why = export(programs, image, index)
                if keys is None or not promised <= keys:
                    lost = sorted(promised - (keys or set()))
                    sys.exit(f"cut in write {number}, {part} bytes, {index}: lost {lost} {why}")
            if index is None:
                continue
            tally.setdefault(index, [0, 0])
            tally[index][0] += 1
            tally[index][1] = max(tally[index][1], len(promised))
            cuts += 1
    for name, (states, keys) in tally.items():
        print(f"  {name}: power cut in and after each of {states} writes, nothing of {keys} acknowledged records lost")
    if len(tally) < 5 or any(keys < 30 for _, keys in tally.values()):
        sys.exit(f"the log has too little: {tally}")


main()
