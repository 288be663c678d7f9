"""A headless Chromium for the tests of the status page. The test controls it through a pipe.

The pipe carries the DevTools protocol: JSON objects, each followed by a zero byte. The browser runs
with a profile of its own, which is removed at the end. It loads nothing from other hosts:
Browser.addresses() lets the test check that.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile

LIMIT_S = 120


class Browser:
    """One browser with one tab."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="holdfast-browser-")
        self.number = 0
        self.asked = []
        take, self.give = os.pipe()
        self.read, put = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4. The descriptors are
        # first copied above 9, so that neither dup2() overwrites the other one.
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                   "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update",
                   "--disable-sync", "--user-data-dir=" + self.profile,
                   "--remote-debugging-pipe", "about:blank"]
        script = f'exec 10<&{take} 11>&{put}; exec 3<&10 4>&11 10<&- 11>&-; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash"] + command, pass_fds=(take, put),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(take)
        os.close(put)
        self.buffer = b""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Accessibility"):
            self.call(domain + ".enable")

    def close(self):
        """Ends the browser, and removes its profile."""
        os.close(self.give)  # the browser ends when the pipe does
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self):
        """Returns the next message of the browser."""
        while b"\0" not in self.buffer:
            some = os.read(self.read, 1 << 16)
            if not some:
                raise RuntimeError("the browser ended")
            self.buffer += some
        one, self.buffer = self.buffer.split(b"\0", 1)
        found = json.loads(one)
        if found.get("method") == "Network.requestWillBeSent":
            self.asked.append(found["params"]["request"]["url"])
        return found

    def call(self, method, **parameters):
        """Calls a method of the protocol, and returns its result."""
        self.number += 1
        order = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            order["sessionId"] = self.session
        os.write(self.give, json.dumps(order).encode() + b"\0")
        while True:
            found = self.message()
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]

    def look(self, url, width, height=800, dark=False, forced=False):
        """Opens a page in a window of that size. Scripts of the page do not run."""
        self.asked = []
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "forced-colors", "value": "active" if forced else "none"}])
        if "errorText" in self.call("Page.navigate", url=url):
            raise RuntimeError(f"the browser could not open {url}")
        while self.message().get("method") != "Page.loadEventFired":
            pass

    def ask(self, expression):
        """Returns the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def addresses(self):
        """Returns the addresses that the browser asked for since look()."""
        self.ask("0")  # so that all messages before this one were read
        return self.asked

    def tree(self):
        """Returns the roles and names that a screen reader is given."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", ""))
                for node in nodes if not node.get("ignored")]

    def picture(self, path):
        """Writes the whole page, as it looks, to a PNG file."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))
