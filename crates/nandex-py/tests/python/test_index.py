"""Indexes as mappings, on a simulated chip, in an image and on a file of pages."""

import os
import random
import tempfile
import unittest

import nandex


class Mapping(unittest.TestCase):
    def test_it_is_a_sorted_dictionary(self):
        draw = random.Random(1)
        for name in ("mu", "bplus", "plow"):
            truth = {}
            with nandex.open(name, blocks=64, ram="256KiB") as index:
                for _ in range(1500):
                    key = draw.randrange(400)
                    if draw.random() < 0.7:
                        index[key] = truth[key] = draw.randrange(1 << 64)
                    elif key in truth:
                        del index[key]
                        del truth[key]
                    else:
                        with self.assertRaises(KeyError):
                            del index[key]
                self.assertEqual(len(index), len(truth))
                self.assertEqual(list(index), sorted(truth))
                self.assertEqual(list(reversed(index)), sorted(truth, reverse=True))
                self.assertEqual(dict(index.items()), truth)
                some = [(key, truth[key]) for key in sorted(truth) if 100 <= key < 300]
                self.assertEqual(list(index.range(100, 300)), some)
                self.assertEqual(list(index.range(100, 300, descending=True, limit=3)), some[::-1][:3])
                self.assertEqual(list(index.range(300, 100)), [])
                self.assertEqual(index.get(999, "none"), "none")
                self.assertEqual(index.check(), [])
                costs = index.costs()
                self.assertGreater(costs["page_programs"], 0)
                self.assertGreater(costs["flash_time_ns"], 0)
                self.assertGreater(index.stats()["ram_bytes"], 0)
            self.assertTrue(index.closed)
            with self.assertRaisesRegex(nandex.StorageError, "closed"):
                index[1]

    def test_walks_see_what_lies_ahead_as_it_is_then(self):
        with nandex.open("mu", blocks=64) as index:
            index.update({key: key for key in range(1000)})
            seen = []
            for key in index:
                seen.append(key)
                if key == 10:
                    del index[900]
                    index[2000] = 1
            self.assertEqual((len(seen), seen[-1]), (1000, 2000))
            index.clear()
            self.assertEqual((len(index), list(index)), (0, []))

    def test_kinds_sort_as_their_values_do(self):
        samples = {
            "i32": [-(2**31), -5, 0, 7, 2**31 - 1],
            "u8": [0, 1, 255],
            "bytes:3": [b"\x00\x01\x02", b"abc", b"\xff\xff\xff"],
            "text:6": ["", "Zoo", "abc", "bär"],
        }
        for kind, keys in samples.items():
            with nandex.open("mu", blocks=64, key=kind, value="f64") as index:
                for at, key in enumerate(reversed(keys)):
                    index[key] = at / 7
                self.assertEqual(list(index), keys)
                self.assertEqual(index[keys[-1]], 0.0)

    def test_what_does_not_fit_is_refused(self):
        with nandex.open("mu", blocks=64, key="u16", value="bytes:2") as index:
            for key in (-1, 65536, "a", 1.5):
                with self.assertRaisesRegex(nandex.RequestError, "no unsigned number of 16 bits"):
                    index[key] = b"ab"
            with self.assertRaisesRegex(nandex.RequestError, "3 bytes where the index has 2"):
                index[1] = b"abc"
        for wrong, words in [
            (dict(index="mo"), "there is no index 'mo'"),
            (dict(key="u65"), "'u65' is no kind"),
            (dict(key="f64"), "kind of values"),
            (dict(ram="1KB"), "may mean two sizes"),
            (dict(options={"victm": "x"}), "option 'victm'"),
            (dict(durability="full"), "durability class"),
            (dict(device="/dev/null", chip="mlc-64m"), "a device has neither"),
            (dict(index="bplus", ram=100), "RAM"),
        ]:
            with self.assertRaises(nandex.RequestError) as caught:
                nandex.open(**wrong)
            self.assertIn(words, str(caught.exception))

    def test_the_power_may_be_cut(self):
        with nandex.open("mu", blocks=64) as index:
            for key in range(100):
                index[key] = key
            index.cut(after=2, when="inside", torn="unreadable")
            acknowledged = 100
            with self.assertRaises(nandex.PowerLost):
                for key in range(100, 200):
                    index[key] = key
                    acknowledged = key + 1
            with self.assertRaises(nandex.StorageError):
                index[5]
            index.mount()
            self.assertIn(len(index), (acknowledged, acknowledged + 1))
            self.assertEqual(list(index)[:acknowledged], list(range(acknowledged)))
            index.power_off()
            with self.assertRaises(nandex.PowerLost):
                index[1000] = 1
            index.mount()
            self.assertEqual(index[99], 99)
            with self.assertRaisesRegex(nandex.RequestError, "did you mean 'inside'"):
                index.cut(when="insid")

    def test_an_image_keeps_the_chip(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chip.img")
            with nandex.open("plow", chip="w25n01gv", blocks=64, image=path) as index:
                index.update({key: key * 2 for key in range(300)})
            with nandex.open("plow", image=path) as index:
                self.assertEqual((len(index), index[299]), (300, 598))
                del index[0]
            with nandex.open("plow", image=path) as index:
                self.assertEqual((len(index), 0 in index), (299, False))
            with self.assertRaisesRegex(nandex.RequestError, "overwrite=True"):
                nandex.open("plow", image=path, format=True)
            nandex.open("plow", image=path, blocks=64, format=True, overwrite=True).close()
            self.assertEqual(os.listdir(folder), ["chip.img"])

    @unittest.skipUnless(os.name == "posix", "files of pages are for Unix systems")
    def test_a_file_of_pages_is_a_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pages")
            with open(path, "wb") as file:
                file.truncate(16 << 20)
            with self.assertRaises(nandex.StorageError):
                nandex.open("mu", device=path, format=False)
            with nandex.open("mu", device=path) as index:
                index[7] = 70
                with self.assertRaisesRegex(nandex.RequestError, "real device"):
                    index.costs()
            with nandex.open("mu", device=path) as index:
                self.assertEqual((len(index), index[7]), (1, 70))
            with self.assertRaisesRegex(nandex.StorageError, "other sizes"):
                nandex.open("mu", device=path, value="u32")
            with self.assertRaisesRegex(nandex.RequestError, "something is there"):
                nandex.open("mu", device=path, format=True)
            with nandex.open("mu", device=path) as index:
                self.assertEqual(index[7], 70)
            with self.assertRaises(nandex.StorageError):
                nandex.open("mu", device=os.path.join(folder, "none"))

    def test_a_place_has_one_owner(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = os.path.join(folder, "pages")
            with open(pages, "wb") as file:
                file.truncate(16 << 20)
            places = [dict(image=os.path.join(folder, "chip.img"), blocks=64)]
            if os.name == "posix":
                places.append(dict(device=pages, format=True))
            for place in places:
                again = {key: value for key, value in place.items() if key in ("image", "device")}
                with nandex.open("plow", **place) as index:
                    index[1] = 1
                    with self.assertRaisesRegex(nandex.InUseError, "is in use"):
                        nandex.open("plow", **again)
                    index[3] = 3
                with nandex.open("plow", **again) as index:
                    self.assertEqual(dict(index.items()), {1: 1, 3: 3})
                    if hasattr(os, "fork"):
                        self.assertEqual(self.in_child(index, again), "InUseError InUseError")
                    index[4] = 4
                with nandex.open("plow", **again) as index:
                    self.assertEqual(dict(index.items()), {1: 1, 3: 3, 4: 4})
            self.assertEqual(sorted(os.listdir(folder)), ["chip.img", "pages"])
            # What never was saved leaves nothing behind.
            index = nandex.open("mu", image=os.path.join(folder, "none.img"), blocks=64)
            del index
            self.assertEqual(sorted(os.listdir(folder)), ["chip.img", "pages"])

    def in_child(self, index, place):
        """What a child hears of the index that it inherited and of one that it opens itself."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            told = []
            for use in (lambda: index.__setitem__(9, 9), lambda: nandex.open("plow", **place)):
                try:
                    use()
                    told.append("nothing")
                except Exception as error:
                    told.append(type(error).__name__)
            os.write(write, " ".join(told).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with os.fdopen(read) as pipe:
            return pipe.read()


if __name__ == "__main__":
    unittest.main()
