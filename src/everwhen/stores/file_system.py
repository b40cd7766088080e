"""The file system of a path, and the refusal of network file systems.

SQLite coordinates its WAL through shared memory, and everwhen through flock: neither works between two machines, and
a database damaged that way is noticed weeks later. The check works on Linux; on other systems nothing is refused.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from everwhen.errors import StoreError, shown

NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs"}
    | {"fuse.beegfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse"}
    | {"fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.mount.glusterfs", "fuse.nfs", "fuse.rclone"}
    | {"fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs"}
)

_MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def refuse_network_file_system(path: str, mounts: Path = _MOUNTINFO) -> None:
    if not mounts.exists():
        return
    kind = file_system_of(path, mounts.read_text(errors="surrogateescape"))
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(network_refusal(path, kind))


def network_refusal(path: str, kind: str) -> str:
    return (
        f"the database {shown(path)} lies on a network file system ({kind}), "
        "where the locks of SQLite do not hold; put it on a local disk, or use PostgreSQL (postgresql://…)"
    )


def file_system_of(path: str, mountinfo: str) -> str:
    """Return the type of the mount that contains an absolute, resolved path; empty when the text names none.

    >>> file_system_of("/srv/a.db", "27 1 254:0 / / rw - ext4 /dev/vda rw\\n30 27 0:5 / /srv rw - nfs4 h: rw")
    'nfs4'
    """
    deepest, kind = -1, ""
    for mount in mountinfo.splitlines():
        before, separator, after = mount.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = PurePosixPath(_unescaped(fields[4]))
        # Not only deeper but equally deep: a later mount on the same point covers the earlier one.
        if len(point.parts) >= deepest and PurePosixPath(path).is_relative_to(point):
            deepest, kind = len(point.parts), after.split(" ")[0]
    return kind


def _unescaped(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)
