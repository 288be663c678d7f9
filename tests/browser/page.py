"""The status page in a real browser: ./dev page runs this test.

It opens the samples of tests/unit/page_samples.c, and the pages of a real cell that is first
well, then degraded, then failing. It shows each page on a phone and on a desktop, in light and
in dark. It checks that nothing is cut off or has to be scrolled sideways, that each text has enough
contrast, and that the browser loads nothing else. It also checks the roles and names that a screen
reader gets.

Usage: page.py BUILD_DIR PICTURES_DIR
"""
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from chromium import Browser

LIMIT_S = 60
PHONE, DESKTOP = 360, 1100

# Each text that is shown, with the contrast between its colour and the colour behind it (WCAG 2.1,
# 1.4.3): 4.5 is enough, or 3 for large text. Shapes and bars need 3 (1.4.11).
CONTRAST = r"""
(() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parse = text => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  let seen = 0;
  const compare = (element, colour, least, what) => {
    const a = light(parse(colour)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen++;
    if (ratio < least) poor.push(`${what}: ${ratio.toFixed(2)}`);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || element.closest('style')) continue;
    const style = getComputedStyle(element);
    const large = parseFloat(style.fontSize) >= 24 ||
                  (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    compare(element, style.color, large ? 3 : 4.5, walk.currentNode.data.trim().slice(0, 40));
  }
  for (const shape of document.querySelectorAll('.shape'))
    compare(shape.parentElement, getComputedStyle(shape).fill, 3, 'a shape');
  for (const bars of document.querySelectorAll('.plot path'))
    compare(bars.closest('section'), getComputedStyle(bars).fill, 3, 'bars');
  return {seen, poor};
})()
"""

# Texts that stick out of the window. The boxes of elements may be clipped, so the script measures
# the texts.
OUTSIDE = r"""
(() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || element.closest('style, .locks thead')) continue;
    range.selectNodeContents(walk.currentNode);
    for (const box of range.getClientRects())
      if (box.right > innerWidth + 0.5 || box.left < -0.5)
        found.push(walk.currentNode.data.trim().slice(0, 40));
  }
  return found;
})()
"""


# Each word of the page's own that is broken into two lines. Names may be broken, because they may
# be long.
BROKEN = r"""
(() => {
  const broken = [];
  for (const element of document.querySelectorAll('.agents td, .agents thead th, dt, dd, h2')) {
    const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      for (const word of walk.currentNode.data.matchAll(/[^\s-]+/g)) {
        const range = document.createRange();
        range.setStart(walk.currentNode, word.index);
        range.setEnd(walk.currentNode, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(at => Math.round(at.top)));
        if (lines.size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
})()
"""


class Failed(Exception):
    """A check found something else than it expected."""


def expect(condition, text):
    """Fails with this text unless the condition is true."""
    if not condition:
        raise Failed(text)


def check_layout(browser, url, name, width, dark):
    """Checks the properties that each page must have in every view."""
    where = f"{name}, {width} pixels, {'dark' if dark else 'light'}"
    browser.look(url, width, dark=dark)
    wide = browser.ask("document.documentElement.scrollWidth")
    expect(wide <= width, f"{where}: the page is {wide} pixels wide")
    outside = browser.ask(OUTSIDE)
    expect(not outside, f"{where}: out of the window: {outside}")
    broken = browser.ask(BROKEN)
    expect(not broken, f"{where}: broken words: {broken}")
    contrast = browser.ask(CONTRAST)
    expect(contrast["seen"] > 20, f"{where}: only {contrast['seen']} texts were found")
    expect(not contrast["poor"], f"{where}: too little contrast: {contrast['poor']}")
    background = browser.ask("getComputedStyle(document.body).backgroundColor")
    expect((background == "rgb(16, 20, 24)") == dark, f"{where}: the background is {background}")
    others = [at for at in browser.addresses() if at != url]
    expect(not others, f"{where}: the browser also asked for {others}")


def check_reader(browser, url, name, word):
    """Checks what a screen reader is given, and that the state is there without colours."""
    browser.look(url, DESKTOP)
    tree = browser.tree()
    roles = [role for role, _ in tree]
    headings = [text for role, text in tree if role == "heading"]
    expect(word in headings, f"{name}: no heading {word} among {headings}")
    expect(roles.count("main") == 1, f"{name}: {roles.count('main')} parts are `main`")
    expect(roles.count("image") == 2, f"{name}: {roles.count('image')} drawings, expected 2")
    for role, text in tree:
        expect(text or role not in ("image", "table", "region", "link", "heading"),
               f"{name}: a {role} without a name")
    browser.look(url, PHONE)
    phone = [role for role, _ in browser.tree()]
    expect(phone.count("rowheader") == roles.count("rowheader"),
           f"{name}: on a phone the tables have {phone.count('rowheader')} rows for a reader, on a "
           f"desktop {roles.count('rowheader')}")
    shape = browser.ask("document.querySelector('.verdict .shape use').getAttribute('href')")
    expect(shape == "#" + word, f"{name}: the shape is {shape}")
    seen = browser.ask("document.querySelector('.verdict .shape').getBoundingClientRect().width")
    expect(seen > 8, f"{name}: the shape is {seen} pixels wide")


def check_page(browser, url, name, word, pictures):
    """Checks one page in all ways, and takes its pictures."""
    for width in (320, PHONE, 768, DESKTOP):
        for dark in (False, True) if width in (PHONE, DESKTOP) else (False,):
            check_layout(browser, url, name, width, dark)
            if width in (PHONE, DESKTOP):
                kind = "phone" if width == PHONE else "desktop"
                browser.picture(os.path.join(
                    pictures, f"{name}-{kind}{'-dark' if dark else ''}.png"))
    check_reader(browser, url, name, word)
    print(f"{name}: well", flush=True)


def check_samples(browser, build, folder, pictures):
    """Checks the samples, as files."""
    words = {"well": "well", "degraded": "degraded", "failing": "failing", "hostile": "degraded",
             "full": "degraded", "empty": "failing"}
    subprocess.run([os.path.join(build, "tests/page_samples"), folder], check=True)
    for name, word in words.items():
        path = os.path.join(folder, name + ".html")
        check_page(browser, "file://" + path, name, word, pictures)
        if name == "hostile":
            title = browser.ask("document.title")
            expect(title == "degraded: host-a, Holdfast", f"the title is {title}")
            added = browser.ask("document.querySelectorAll('script, img, [onclick], [onerror]')"
                                ".length")
            expect(added == 0, f"{added} elements came from names")


# ---- a real cell ----

def free_ports(count):
    """Returns ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cell:
    """Three voters and an observer on the loopback, each with a status page."""

    NAMES = ("host-a", "host-b", "host-c", "observer-1")

    def __init__(self, build, folder):
        self.build = build
        self.folder = folder
        ports = free_ports(2 * len(self.NAMES))
        self.links = dict(zip(self.NAMES, ports))
        self.pages = dict(zip(self.NAMES, ports[len(self.NAMES):]))
        self.processes = {}
        self.others = []
        for name in self.NAMES:
            self.start(name)

    def path(self, name):
        """Returns the URL path of an agent's page, without its slash."""
        return f"http://127.0.0.1:{self.pages[name]}"

    def start(self, name):
        """Starts an agent."""
        file = os.path.join(self.folder, name + ".ini")
        voters = "".join(f"{one} = tcp://127.0.0.1:{self.links[one]}\n" for one in self.NAMES[:3])
        role = "observer" if name == "observer-1" else "voter"
        listen = f"listen = tcp://127.0.0.1:{self.links[name]}\n" if role == "observer" else ""
        with open(file, "w", encoding="utf-8") as out:
            out.write(f"[agent]\nname = {name}\ncell = browser\nrole = {role}\n"
                      f"state_dir = {self.folder}/{name}\nsocket = {self.folder}/{name}.sock\n"
                      f"[cell]\n{listen}session_ttl = 6s\ngrace_period = 1h\n[voters]\n{voters}"
                      f"[http]\nlisten = {self.path(name)}\nadvertise = {self.path(name)}/\n"
                      "show = holders\n")
        with open(os.path.join(self.folder, name + ".log"), "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen(
                [os.path.join(self.build, "bin/holdfastd"), "--config", file], stderr=log)

    def kill(self, name):
        """Ends an agent at once."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes.pop(name).wait()

    def hold(self, host, lock):
        """Starts a process that holds the lock."""
        self.others.append(subprocess.Popen(
            [os.path.join(self.build, "bin/holdfast"), "-s", f"{self.folder}/{host}.sock", "lock",
             lock, "--", "sleep", "600"], stderr=subprocess.DEVNULL))

    def get(self, name, path):
        """Returns the answer of an agent, as a text with its headers; "": there is none."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.pages[name], timeout=10)
            connection.request("GET", path)
            answer = connection.getresponse()
            return str(answer.headers) + answer.read().decode()
        except OSError:
            return ""

    def wait(self, name, path, *texts):
        """Waits until an answer has all of the texts."""
        end = time.monotonic() + LIMIT_S
        while True:
            answer = self.get(name, path)
            missing = [text for text in texts if text not in answer]
            if not missing:
                return answer
            expect(time.monotonic() < end, f"{name} {path}: no {missing} in\n{answer}")
            time.sleep(0.2)

    def close(self):
        """Ends everything."""
        for process in self.others + list(self.processes.values()):
            process.terminate()
        for process in self.others + list(self.processes.values()):
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check_cell(browser, cell, pictures):
    """Checks the pages of a real cell that is well, degraded, failing."""
    cell.wait("host-a", "/healthz", "\nwell")
    cell.wait("observer-1", "/healthz", "\nwell")
    cell.hold("host-a", "orders/invoice")
    cell.wait("host-a", "/still", "orders/invoice</bdi>")
    cell.hold("observer-1", "orders/invoice")
    links = [f'href="{cell.path(name)}/">{name}<' for name in cell.NAMES[1:]]
    page = cell.wait("host-a", "/still", "sleep 600", "1 on observer-1", *links)
    expect("Content-Security-Policy: default-src 'none'" in page, "there is no policy")
    cell.wait("observer-1", "/still", "host-a for", "1 on observer-1",
              f'href="{cell.path("host-a")}/">host-a<')
    check_page(browser, cell.path("host-a") + "/still", "cell-well", "well", pictures)

    browser.look(cell.path("host-a") + "/", DESKTOP)
    expect(browser.ask("document.querySelector('meta[http-equiv=refresh]').content") == "5",
           "the page does not refresh itself")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.call("Page.navigate", url=cell.path("host-b") + "/still")
    while browser.message().get("method") != "Page.loadEventFired":
        pass
    browser.ask("document.body.insertAdjacentHTML('beforeend', '<p id=p onclick=\"document.title="
                "1\">x</p>'); document.getElementById('p').click()")
    title = browser.ask("document.title")
    expect(title.endswith(": host-b, Holdfast"), f"the policy let a script run: {title}")

    cell.kill("host-c")
    cell.wait("host-a", "/healthz", "\ndegraded\nvoter_down host-c")
    check_page(browser, cell.path("host-a") + "/still", "cell-degraded", "degraded", pictures)
    cell.kill("host-b")
    cell.wait("host-a", "/healthz", "\nfailing\nsession_jeopardy")
    check_page(browser, cell.path("host-a") + "/still", "cell-failing", "failing", pictures)


def main():
    """Runs the test. The exit status is 0 only if all is well."""
    build, pictures = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` ends the others
    browser = cell = None
    os.makedirs(pictures, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-page-") as folder:
        try:
            browser = Browser()
            check_samples(browser, build, folder, pictures)
            cell = Cell(build, folder)
            check_cell(browser, cell, pictures)
        except (Failed, RuntimeError) as error:
            print(f"page: {error}", file=sys.stderr)
            return 1
        finally:
            if cell:
                cell.close()
            if browser:
                browser.close()
    print(f"the pictures are in {pictures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
