#!/usr/bin/env python3
"""The page of `nandex serve` in a headless Chromium: it plays, steps back, cuts the power and opens a page.

Speaks the DevTools protocol over the browser's own pipe, so it needs nothing but Python and Chromium:

    browser.py SERVER            run the checks; SERVER prints the address to open as its first line
    browser.py SERVER --shots DIR   write pictures of the page, light and dark, wide and narrow
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync --disable-extensions --mute-audio --remote-debugging-pipe").split()


class Browser:
    """A browser with one tab."""

    def __init__(self, profile):
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()

        def wire():
            # The browser reads commands from descriptor 3 and writes answers to 4.
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen([CHROMIUM, *FLAGS, "--user-data-dir=" + profile, "about:blank"], close_fds=False,
                                        preexec_fn=wire, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(to_write)
        self.rest, self.number, self.session, self.faults = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self, patience=30):
        until = time.monotonic() + patience
        while b"\0" not in self.rest:
            import select
            if not select.select([self.inp], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            got = os.read(self.inp, 1 << 20)
            if not got:
                raise EOFError("the browser has ended")
            self.rest += got
        one, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(one)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.faults.append(params["exceptionDetails"].get("text", "") + str(params["exceptionDetails"].get("exception", {}).get("description", "")))
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith((self.home, "about:", "data:")):
            self.faults.append("the page asks " + params["request"]["url"])
        return message

    home = "about:"

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.out, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(method + ": " + message["error"]["message"])
                return message["result"]

    def js(self, code):
        """The value of an expression in the page; promises are waited for."""
        said = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(code + ": " + json.dumps(said["exceptionDetails"])[:400])
        return said["result"].get("value")

    def wait(self, code, patience=30):
        until = time.monotonic() + patience
        while not self.js("!!(" + code + ")"):
            if time.monotonic() > until:
                raise AssertionError("waited in vain for " + code + "; the page says: " + str(self.js("document.getElementById('error').textContent")))
            time.sleep(0.05)

    def click(self, id_):
        self.js(f"document.getElementById('{id_}').click()")

    def key(self, key, shift=False):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=8 if shift else 0,
                      windowsVirtualKeyCode={"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Enter": 13, " ": 32}.get(key, ord(key[0].upper())))

    def open(self, address):
        self.home = address
        self.call("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.ready === 'yes'")

    def end(self):
        self.process.terminate()
        self.process.wait()


def place(browser):
    """The step and the operation of the chip that are shown."""
    run, step, event = browser.js("document.body.dataset.place").split(":")
    return int(run), int(step), int(event)


def to(browser, step):
    browser.js(f"(() => {{ const s = document.getElementById('slider'); s.value = {step}; s.dispatchEvent(new Event('input')); }})()")
    browser.wait(f"document.body.dataset.place.split(':')[1] === '{step}'")


CHIP = "[...document.querySelectorAll('#chip .cell')].map(c => c.className.split(' ')[1] + c.dataset.life).join()"
TEXT = "document.getElementById('{}').textContent"


def check(is_so, what):
    if not is_so:
        raise AssertionError(what)


def checks(browser, address):
    browser.open(address)
    steps = browser.js("run.steps.length")
    check(steps == 151, f"the first run has {steps} steps")
    # Steps forth and back: the same place shows the same chip.
    to(browser, 40)
    chip, tree = browser.js(CHIP), browser.js(TEXT.format("tree"))
    check("r-rootlive" in chip and "r-rootdead" in chip and "r-erasedfree" in chip, "no root is seen, or no old one")
    browser.click("b-forth")
    browser.wait("document.body.dataset.place.split(':')[1] === '41'")
    check(browser.js(CHIP) != chip, "a step changed nothing")
    browser.key("ArrowLeft")
    browser.wait("document.body.dataset.place.split(':')[1] === '40'")
    check(browser.js(CHIP) == chip and browser.js(TEXT.format("tree")) == tree, "a step back shows another chip")
    # One operation of the chip at a time.
    browser.click("b-fine-back")
    browser.wait("document.getElementById('step-outcome').textContent === '(under way)'")
    check(browser.js(CHIP) != chip, "before its program the step shows the chip as behind it")
    browser.key("ArrowRight", shift=True)
    browser.wait("!document.getElementById('step-outcome').textContent.startsWith('(')")
    check(browser.js(CHIP) == chip, "the chip is another one operation forth")
    # It plays until it is told to pause.
    browser.key(" ")
    browser.wait("Number(document.body.dataset.place.split(':')[1]) >= 42")
    browser.key(" ")
    browser.wait("document.getElementById('b-play').textContent.includes('Play')")
    # A page byte by byte.
    to(browser, 60)
    browser.js("document.querySelector('#tree .node').click()")
    browser.wait("document.getElementById('page-box').open")
    check("root" in browser.js(TEXT.format("page-title")), "the first node is no root")
    check(browser.js("document.querySelectorAll('#page-fields .field').length") > 15, "a page has hardly a field")
    check(browser.js("document.querySelectorAll('#page-hex i').length") == 576, "not every byte is shown")
    browser.js("document.getElementById('page-box').close()")
    # The power is cut inside the next program, and nothing acknowledged is lost.
    run = place(browser)[0]
    browser.key("c")
    browser.wait("!document.getElementById('cut-box').hidden")
    check("program of page" in browser.js(TEXT.format("cut-next")), "what the cut meets is not told")
    browser.js("document.querySelector('#cut-modes [data-mode=random_bits]').click()")
    browser.wait("!document.getElementById('recovery').hidden")
    check(browser.js(TEXT.format("recovery")).startswith("The promise was kept"), browser.js(TEXT.format("recovery")))
    check("r-torn" in browser.js(CHIP), "the torn page is not seen")
    check(place(browser)[0] != run, "the cut made no run of its own")
    browser.click("b-onward")
    browser.wait("run.steps.length > 100")
    browser.click("b-uncut")
    browser.wait(f"document.body.dataset.place === '{run}:60:' + run.steps[60].events")
    # Another index on another FTL, whose promise is none: what was lost is told.
    browser.js("""(() => { const set = (id, v) => { const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event('change')); };
      set('f-index', 'lazy-update'); set('f-ftl', 'fast'); set('f-durability', 'none'); set('f-operations', '60'); document.getElementById('setup').requestSubmit(); })()""")
    browser.wait("run.setup.index === 'lazy-update' && document.body.dataset.place.startsWith(run.id + ':')")
    browser.key("End")
    browser.wait("document.body.dataset.place.split(':')[1] === '60'")
    browser.click("b-cut")
    browser.js("document.querySelector('#cut-modes [data-mode=before]').click()")
    browser.wait("!document.getElementById('recovery').hidden")
    text = browser.js(TEXT.format("recovery"))
    check(text.startswith("Nothing was promised") and "not there" in text, text)
    # A scene of each paper goes from stop to stop.
    for scene in browser.js("about.scenes.map(s => s.name)"):
        browser.js(f"document.querySelector('#scenes [data-scene={scene}]').click()")
        browser.wait(f"location.hash === '#{scene}' && run.stops.length && !document.getElementById('stop').hidden")
        stops = browser.js("run.stops.length")
        for stop in range(1, stops):
            title = browser.js(f"run.stops[{stop}].title")
            browser.key("n")
            browser.wait(f"document.querySelector('#stop h2').textContent === {json.dumps(title)}")
    # What cannot be is said, and the page goes on.
    browser.js("""(() => { document.getElementById('f-options').value = 'nonsense=1'; document.getElementById('setup').requestSubmit(); })()""")
    browser.wait("!document.getElementById('error').hidden")
    check("nonsense" in browser.js(TEXT.format("error")), "a bad option is not named")
    # The last refusal is an answer with an error status, which the browser logs.
    faults = [fault for fault in browser.faults if "422" not in fault]
    check(not faults, "the browser complains: " + "; ".join(faults))


def shots(browser, address, folder):
    os.makedirs(folder, exist_ok=True)
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for width in (1400, 420):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 500)
            for scene in ("", "mu", "wpcb", "access-mr"):
                browser.open("about:blank") if False else browser.call("Page.navigate", url="about:blank")
                browser.open(address + ("#" + scene if scene else ""))
                if scene:
                    browser.key("n"), browser.key("n")
                    time.sleep(0.4)
                else:
                    to(browser, 90)
                check(browser.js("document.documentElement.scrollWidth") <= width, f"the page is wider than {width}")
                picture = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
                with open(f"{folder}/{scheme}-{width}-{scene or 'start'}.png", "wb") as file:
                    file.write(base64.b64decode(picture))
            browser.js("document.querySelector('#tree .node').click()")
            browser.wait("document.getElementById('page-box').open")
            with open(f"{folder}/{scheme}-{width}-page.png", "wb") as file:
                file.write(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
            browser.js("document.getElementById('page-box').close()")
            browser.open(address)
            to(browser, 70)
            browser.key("c")
            browser.wait("!document.getElementById('cut-box').hidden")
            browser.js("document.querySelector('#cut-modes [data-mode=unreadable]').click()")
            browser.wait("!document.getElementById('recovery').hidden")
            with open(f"{folder}/{scheme}-{width}-cut.png", "wb") as file:
                file.write(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))


def main():
    server = subprocess.Popen(sys.argv[1].split(), stdout=subprocess.PIPE, text=True)
    browser = None
    try:
        address = server.stdout.readline().split()[-1]
        with tempfile.TemporaryDirectory(prefix="nandex-look-") as profile:
            browser = Browser(profile)
            if "--shots" in sys.argv:
                shots(browser, address, sys.argv[sys.argv.index("--shots") + 1])
            else:
                checks(browser, address)
                print("the page plays, steps back, cuts the power and shows pages: as it should")
            browser.end()
            browser = None
    finally:
        if browser:
            browser.end()
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
