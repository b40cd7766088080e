"""Which file systems are refused, by made-up and by real mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.errors import StoreError
from everwhen.store.sqlite.files import (
    NETWORK_FILE_SYSTEMS,
    file_system_of,
    network_refusal,
    refuse_network_file_system,
)

MOUNTINFO = r"""
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 27 0:21 / /proc rw,relatime - proc proc rw
31 27 0:40 / /srv rw,relatime shared:5 master:2 - nfs4 server:/export rw,vers=4.2
32 31 0:41 / /srv/fast rw,relatime - xfs /dev/vdb rw
33 27 0:42 / /mnt/my\040share rw,relatime - cifs //server/share rw
34 27 0:43 / /home/me/remote rw,nosuid,nodev - fuse.sshfs me@server: rw
35 27 0:44 / /auto rw,relatime - autofs systemd-1 rw
36 35 0:45 / /auto rw,relatime - nfs server:/auto rw
37 27 0:46 / /shadowed rw - nfs server:/old rw
38 37 254:1 / /shadowed rw - ext4 /dev/vdc rw
a line that nobody understands
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/everwhen.db", "ext4"),
        ("/srv/everwhen.db", "nfs4"),
        ("/srv/deep/down/everwhen.db", "nfs4"),
        ("/srv/fast/everwhen.db", "xfs"),
        ("/srvother/everwhen.db", "ext4"),
        ("/mnt/my share/everwhen.db", "cifs"),
        ("/home/me/remote/everwhen.db", "fuse.sshfs"),
        ("/home/me/everwhen.db", "ext4"),
        ("/auto/everwhen.db", "nfs"),
        ("/shadowed/everwhen.db", "ext4"),
    ],
)
def test_a_path_lies_on_the_deepest_and_latest_mount_above_it(path: str, kind: str) -> None:
    assert file_system_of(path, MOUNTINFO) == kind


def test_a_text_without_mounts_names_no_file_system() -> None:
    assert file_system_of("/a.db", "") == ""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "afs", "glusterfs", "ceph", "fuse.sshfs"]
)
def test_network_file_systems_are_known(kind: str) -> None:
    assert kind in NETWORK_FILE_SYSTEMS


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuse.fuse-overlayfs", ""]
)
def test_local_file_systems_are_accepted(kind: str) -> None:
    assert kind not in NETWORK_FILE_SYSTEMS


def test_a_database_on_a_network_mount_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTINFO)
    refuse_network_file_system("/var/lib/everwhen.db", mounts)
    with pytest.raises(StoreError) as refusal:
        refuse_network_file_system("/srv/everwhen.db", mounts)
    assert str(refusal.value) == network_refusal("/srv/everwhen.db", "nfs4")
    assert "/srv/everwhen.db" in str(refusal.value)
    assert "local disk" in str(refusal.value)


def test_where_no_mounts_are_known_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network_file_system("/srv/everwhen.db", tmp_path / "missing")


def test_the_temporary_directory_of_this_machine_is_local(tmp_path: Path) -> None:
    refuse_network_file_system(str(tmp_path.resolve() / "a.db"))
