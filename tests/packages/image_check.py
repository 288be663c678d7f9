#!/usr/bin/env python3
"""Checks an OCI image layout, without the code that made it. Argument: the folder. Prints the paths
of the layer and of the configuration.

Each blob is what its descriptor says, and no blob is left over. The layer has what a container
needs and no more: each file belongs to root, none is set-user-ID or a device, each library that a
program or a library needs is there, no link is dangling, and no file is younger than the image.
"""

import gzip
import hashlib
import io
import json
import os
import posixpath
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime

WANTED = ("usr/bin/holdfast", "usr/bin/holdfastd", "usr/bin/sh", "etc/os-release", "etc/passwd",
          "usr/share/doc/holdfast/copyright", "var/lib/dpkg/status.d/holdfast",
          "var/lib/dpkg/status.d/libholdfast0", "run/holdfast", "var/lib/holdfast")  # fmt: skip
MEDIA = "application/vnd.oci.image."


def fail(text):
    sys.exit("image_check: " + text)


class Layout:
    def __init__(self, folder):
        self.folder = folder
        self.used = set()

    def read(self, path):
        with open(os.path.join(self.folder, path), "rb") as file:
            return file.read()

    def blob(self, descriptor, kind):
        """The bytes of a blob, which must be what the descriptor says."""
        if descriptor["mediaType"] != MEDIA + kind:
            fail(f"found the media type {descriptor['mediaType']}, expected {MEDIA}{kind}")
        digest = descriptor["digest"].removeprefix("sha256:")
        data = self.read("blobs/sha256/" + digest)
        self.used.add(digest)
        if len(data) != descriptor["size"]:
            fail(f"{digest}: found {len(data)} bytes, expected {descriptor['size']}")
        if hashlib.sha256(data).hexdigest() != digest:
            fail(f"{digest}: found the digest {hashlib.sha256(data).hexdigest()}")
        return data


def resolve(members, path):
    """The path of a file behind its links, and None if there is no such file."""
    for _ in range(16):
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            member = members.get("/".join(parts[:count]))
            if member is not None and member.issym():
                above, rest = "/".join(parts[: count - 1]), parts[count:]
                path = posixpath.normpath(posixpath.join("/", above, member.linkname, *rest))[1:]
                break
        else:
            return path if path in members else None
    return None


def check_members(members, created):
    for path, member in members.items():
        if (member.uid, member.gid, member.uname, member.gname) != (0, 0, "", ""):
            fail(f"/{path} belongs to {member.uid}:{member.gid}, expected 0:0")
        if not (member.isreg() or member.isdir() or member.issym()):
            fail(f"/{path} is neither a file nor a folder nor a link")
        if member.mode & 0o6000 and not member.isdir():
            fail(f"/{path} is set-user-ID or set-group-ID")
        if member.mtime > created:
            fail(f"/{path} is younger than the image")
        if member.issym() and resolve(members, path) is None:
            fail(f"/{path} is a link to {member.linkname}, which is not there")
    for path in WANTED:
        if resolve(members, path) is None:
            fail(f"/{path} is not in the image")


def needed(data):
    """The names of the libraries that a program or a library needs."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        text = subprocess.run(["objdump", "-p", file.name], stdout=subprocess.PIPE,
                              check=True).stdout.decode()  # fmt: skip
    return [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["NEEDED"]]


def check_libraries(archive, members):
    names = {posixpath.basename(path) for path in members if path.startswith("usr/lib")}
    for path, member in members.items():
        if member.isreg() and member.size > 4:
            data = archive.extractfile(member).read()
            if data[:4] == b"\x7fELF":
                for name in needed(data):
                    if name not in names:
                        fail(f"/{path} needs {name}, which is not in the image")


def check_layer(layer, created):
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        listed = archive.getmembers()
        members = {member.name: member for member in listed}
        if [member.name for member in listed] != sorted(members):
            fail("the layer's files are not in order, or one is there twice")
        check_members(members, created)
        check_libraries(archive, members)


def main():
    layout = Layout(sys.argv[1])
    if json.loads(layout.read("oci-layout")) != {"imageLayoutVersion": "1.0.0"}:
        fail("oci-layout does not name version 1.0.0")
    index = json.loads(layout.read("index.json"))
    if len(index["manifests"]) != 1:
        fail(f"found {len(index['manifests'])} manifests, expected one")
    manifest = json.loads(layout.blob(index["manifests"][0], "manifest.v1+json"))
    config = json.loads(layout.blob(manifest["config"], "config.v1+json"))
    if len(manifest["layers"]) != 1:
        fail(f"found {len(manifest['layers'])} layers, expected one")
    layer = gzip.decompress(layout.blob(manifest["layers"][0], "layer.v1.tar+gzip"))
    if config["rootfs"]["diff_ids"] != ["sha256:" + hashlib.sha256(layer).hexdigest()]:
        fail("the layer's digest is not that of the configuration")
    left = set(os.listdir(os.path.join(layout.folder, "blobs/sha256"))) - layout.used
    if left:
        fail(f"blobs that nothing names: {' '.join(sorted(left))}")
    if config["config"]["Entrypoint"] != ["/usr/bin/holdfastd"]:
        fail(f"found the entrypoint {config['config']['Entrypoint']}, expected holdfastd")
    check_layer(layer, datetime.fromisoformat(config["created"]).timestamp())
    blobs = os.path.join(layout.folder, "blobs/sha256/")
    for descriptor in (manifest["layers"][0], manifest["config"]):
        print(blobs + descriptor["digest"].removeprefix("sha256:"))


if __name__ == "__main__":
    main()
