#!/usr/bin/env python3
"""Makes an OCI image layout of Debian packages, and nothing but their files.

    layout.py --version VERSION --epoch SECONDS --architecture ARCH FOLDER PACKAGE.deb...

FOLDER is made: oci-layout, index.json, and below blobs/sha256 one layer, its configuration and the
manifest. FOLDER.tar has the same files, in the form that the tools of container runtimes load.

The packages are unpacked, not installed: no maintainer script runs, so this needs neither root nor
a container. Such scripts make a service's user and folders. Where a container needs these, OWN and
FOLDERS below have them. The image has no package manager. It lists its packages in
/var/lib/dpkg/status.d, one file for each, where scanners look for them.

The same packages, version and epoch give the same bytes: the order of files, their times (none
later than the epoch), owners, modes and the compression depend on nothing else. (Another release of
zlib may compress otherwise. The configuration names the digest of the uncompressed layer.)
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import posixpath
import shutil
import subprocess
import sys
import tarfile
from datetime import datetime, timezone

# Files that a container does not need: manuals, completion, and files that only systemd or an
# installation reads. Licences stay.
LEFT_OUT = (
    "etc/apparmor.d", "usr/lib/systemd", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d",
    "usr/share/bash-completion", "usr/share/bug", "usr/share/fish", "usr/share/info",
    "usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/share/zsh",
    "usr/share/doc-base", "usr/share/gcc", "usr/share/initramfs-tools",
    "usr/share/base-files", "usr/share/menu", "etc/init.d", "etc/update-motd.d",
    "var/local", "var/lock", "var/mail", "var/run",  # only their installation makes them right
)  # fmt: skip
DOC = "usr/share/doc"
# Since Debian 12 these are links into /usr. Some packages still have files below the old names.
MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
# The commands of busybox that get a name. The script in docs/KUBERNETES.md uses some of them.
COMMANDS = (
    "cat chmod chown cp date echo env false grep head hostname id kill ln ls mkdir mv nproc ps"
    " readlink rm rmdir sed sh sleep stat tail test timeout touch true wc"
).split()
# Folders that no package has.
FOLDERS = {
    "dev": 0o755, "etc/holdfast": 0o755, "proc": 0o755, "run/holdfast": 0o711, "sys": 0o755,
    "tmp": 0o1777, "var/lib/holdfast": 0o700,
}  # fmt: skip
# Files that an installation would make.
OWN = {
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
}
# Debian's names of architectures, where OCI (Go) has others.
ARCHITECTURES = {
    "armhf": ("arm", "v7"), "i386": ("386", None), "mips64el": ("mips64le", None),
    "ppc64el": ("ppc64le", None),
}  # fmt: skip
TYPE = "application/vnd.oci.image."


def output_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"layout: {' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def fields(package):
    """The fields of a package's control file that fit on one line, as the file has them."""
    found = {}
    for line in output_of("dpkg-deb", "-f", package).decode().splitlines():
        if line and not line[0].isspace():
            name, _, value = line.partition(":")
            found[name] = value.strip()
    return found


def merged(path):
    """The path with which a file is stored: without ./ and in /usr where that is its real place."""
    path = posixpath.normpath(path).lstrip("/")
    first = path.split("/", 1)[0]
    return "usr/" + path if first in MERGED else path


def is_wanted(path):
    if any(path == folder or path.startswith(folder + "/") for folder in LEFT_OUT):
        return False
    if "/gconv" in path:  # conversions between character sets, 8 MB
        return False
    if path.startswith(DOC + "/"):
        below = path[len(DOC) + 1 :].split("/")
        return len(below) == 1 or below[1:] == ["copyright"]
    return True


class Tree:
    """The files of the image: for each path a member of a tar file, and its bytes."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.files = {}
        self.origins = {}

    def put(self, path, kind, mode, data=b"", target="", time=None):
        member = tarfile.TarInfo(path)
        member.type, member.mode, member.linkname = kind, mode, target
        member.size = len(data)
        member.mtime = self.epoch if time is None else min(time, self.epoch)
        self.files[path] = (member, data)

    def put_folders_above(self, path):
        while path := posixpath.dirname(path):
            if path not in self.files:
                self.put(path, tarfile.DIRTYPE, 0o755)

    def take(self, package):
        """Adds the files of a package. Only a folder may be in two packages."""
        stream = io.BytesIO(output_of("dpkg-deb", "--fsys-tarfile", package))
        with tarfile.open(fileobj=stream) as archive:
            for member in archive:
                path = merged(member.name)
                if path == "." or not is_wanted(path):
                    continue
                self.take_member(package, archive, member, path)

    def take_member(self, package, archive, member, path):
        if (member.uid, member.gid) != (0, 0):
            sys.exit(f"layout: {package}: /{path}: found the owner {member.uid}:{member.gid},"
                     " expected root")  # fmt: skip
        if member.isdir():
            if path not in self.files or path not in self.origins:
                self.put(path, tarfile.DIRTYPE, member.mode, time=member.mtime)
                self.origins[path] = package
            return
        if path in self.origins:
            sys.exit(f"layout: /{path} is in two packages: {self.origins[path]}, {package}")
        self.origins[path] = package
        if member.issym():
            self.put(path, tarfile.SYMTYPE, 0o777, target=member.linkname, time=member.mtime)
        elif member.isreg() or member.islnk():  # a hard link becomes a copy
            data = archive.extractfile(member).read()
            self.put(path, tarfile.REGTYPE, member.mode, data, time=member.mtime)
        else:
            sys.exit(f"layout: {package}: /{path}: expected a file, a link or a folder")

    def take_status(self, package):
        found = fields(package)
        control = output_of("dpkg-deb", "-f", package)
        self.put("var/lib/dpkg/status.d/" + found["Package"], tarfile.REGTYPE, 0o644, control)
        return f"{found['Package']} {found['Version']}"

    def finish(self):
        """Adds the folders and files that no package has."""
        for folder in MERGED:
            if "usr/" + folder in self.files:
                self.put(folder, tarfile.SYMTYPE, 0o777, target="usr/" + folder)
        for path, mode in FOLDERS.items():
            self.put(path, tarfile.DIRTYPE, mode)
        for path, text in OWN.items():
            self.put(path, tarfile.REGTYPE, 0o644, text.encode())
        if "usr/bin/busybox" in self.files:
            for command in COMMANDS:
                self.put("usr/bin/" + command, tarfile.SYMTYPE, 0o777, target="busybox")
        for path in list(self.files):
            self.put_folders_above(path)

    def tar(self):
        return tar_of(self.files.values())


def tar_of(members):
    """A tar file: folders stand before their files, and everything belongs to root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in sorted(members, key=lambda entry: entry[0].name):
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def json_of(value):
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def platform(architecture):
    name, variant = ARCHITECTURES.get(architecture, (architecture, None))
    return {"architecture": name, "os": "linux"} | ({"variant": variant} if variant else {})


def configuration(options, layer, packages):
    created = datetime.fromtimestamp(options.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return platform(options.architecture) | {
        "created": created,
        "config": {
            "Entrypoint": ["/usr/bin/holdfastd"],
            "Cmd": ["--config", "/etc/holdfast/holdfastd.ini"],
            "Env": ["PATH=/usr/sbin:/usr/bin"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "holdfast",
                "org.opencontainers.image.version": options.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "comment": "packages: " + ", ".join(packages)}],
    }


class Layout:
    """The files of the layout."""

    def __init__(self):
        self.files = {"oci-layout": json_of({"imageLayoutVersion": "1.0.0"})}

    def put_blob(self, kind, data):
        """Adds a blob, and returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        self.files["blobs/sha256/" + digest] = data
        return {"mediaType": TYPE + kind, "digest": "sha256:" + digest, "size": len(data)}

    def write(self, folder, epoch):
        """Writes FOLDER and FOLDER.tar in place of those that are there."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "blobs", "sha256"))
        tree = Tree(epoch)
        for path, data in self.files.items():
            with open(os.path.join(folder, path), "wb") as file:
                file.write(data)
            tree.put(path, tarfile.REGTYPE, 0o644, data)
            tree.put_folders_above(path)
        with open(folder + ".tar", "wb") as file:
            file.write(tree.tar())


def layout_of(options):
    tree, names = Tree(options.epoch), []
    for package in sorted(options.packages, key=os.path.basename):
        tree.take(package)
        names.append(tree.take_status(package))
    tree.finish()
    layer = tree.tar()
    layout = Layout()
    packed = gzip.compress(layer, 9, mtime=0)
    layers = [layout.put_blob("layer.v1.tar+gzip", packed)]
    config = json_of(configuration(options, layer, names))
    manifest = layout.put_blob("manifest.v1+json", json_of({
        "schemaVersion": 2,
        "mediaType": TYPE + "manifest.v1+json",
        "config": layout.put_blob("config.v1+json", config),
        "layers": layers,
    }))  # fmt: skip
    manifest["platform"] = platform(options.architecture)
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "holdfast:" + options.version}
    layout.files["index.json"] = json_of({
        "schemaVersion": 2,
        "mediaType": TYPE + "index.v1+json",
        "manifests": [manifest],
    })  # fmt: skip
    print(f"{len(names)} packages, {len(tree.files)} files,"
          f" {len(layer) >> 10} KiB, compressed {len(packed) >> 10} KiB")  # fmt: skip
    return layout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--epoch", required=True, type=int)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("folder")
    parser.add_argument("packages", nargs="+", metavar="PACKAGE.deb")
    options = parser.parse_args()
    layout_of(options).write(options.folder, options.epoch)


if __name__ == "__main__":
    main()
