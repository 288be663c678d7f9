#!/usr/bin/env python3
"""Writes the config.json with which runc runs a container of the image.

    bundle.py CONFIGURATION ROOT BUNDLE [OPTION...] [-- ARG...]

CONFIGURATION is the image's, ROOT its unpacked layer, which the container cannot write to. ARGs are
in place of the entrypoint and its arguments. The process has no capability and no new privileges.
"""

import argparse
import json
import os
import sys

SHM = {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
       "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]}  # fmt: skip


def bind(words):
    source, destination, mode = words.split(":")
    return {"destination": destination, "type": "bind", "source": source,
            "options": ["bind", mode, "nosuid", "nodev"]}  # fmt: skip


def mounts(options):
    tmpfs = ["nosuid", "mode=755", "size=65536k"]
    found = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": tmpfs},
        bind(options.shm + ":/dev/shm:rw") if options.shm else SHM,
    ]
    return found + [bind(words) for words in options.mount]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configuration")
    parser.add_argument("root")
    parser.add_argument("bundle")
    parser.add_argument("--user", type=int, default=0)
    parser.add_argument("--shm", help="a folder to be /dev/shm; default: one of its own")
    parser.add_argument("--host-pid", action="store_true", help="no pid namespace of its own")
    parser.add_argument("--mount", action="append", default=[], metavar="FROM:TO:ro|rw")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--cgroup", required=True)
    words = sys.argv[1:] + ["--"]
    options = parser.parse_args(words[: words.index("--")])
    command = words[words.index("--") + 1 : -1]
    with open(options.configuration, encoding="utf-8") as file:
        image = json.load(file)["config"]
    kinds = ["mount", "ipc", "uts", "network"] + ([] if options.host_pid else ["pid"])
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": options.user, "gid": options.user},
            "args": command or image["Entrypoint"] + image["Cmd"],
            "env": image["Env"] + options.env,
            "cwd": image["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "root": {"path": options.root, "readonly": True},
        "hostname": "container",
        "mounts": mounts(options),
        "linux": {
            "cgroupsPath": options.cgroup,
            "namespaces": [{"type": kind} for kind in kinds],
        },
    }
    os.makedirs(options.bundle, exist_ok=True)
    with open(os.path.join(options.bundle, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


if __name__ == "__main__":
    main()
