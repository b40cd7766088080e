from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.errors import ManifestError
from everwhen.targets.plugin_folders import PluginFolders
from tests.targets.plugins import put_plugin


def test_a_plugin_is_found_by_the_name_in_its_manifest(tmp_path: Path) -> None:
    home = put_plugin(tmp_path, folder="some-folder")
    plugin = PluginFolders([tmp_path]).find("withings")
    assert plugin is not None
    assert plugin.manifest.name == "withings"
    assert plugin.entrypoint == str(home / "run.sh")
    assert PluginFolders([tmp_path]).find("some-folder") is None


def test_the_first_directory_wins(tmp_path: Path) -> None:
    put_plugin(tmp_path / "a", version="1")
    put_plugin(tmp_path / "b", version="2")
    folders = PluginFolders([tmp_path / "a", tmp_path / "b"])
    found = folders.find("withings")
    assert found is not None and found.manifest.version == "1"


def test_a_directory_that_is_not_there_holds_no_plugins(tmp_path: Path) -> None:
    assert PluginFolders([tmp_path / "nowhere"]).find("withings") is None


def test_a_changed_manifest_counts_from_the_next_look_on(tmp_path: Path) -> None:
    put_plugin(tmp_path)
    folders = PluginFolders([tmp_path])
    before = folders.find("withings")
    put_plugin(tmp_path, commands=[{"name": "poll"}])
    after = folders.find("withings")
    assert before is not None and before.manifest.command("token_refresh") is not None
    assert after is not None and after.manifest.command("token_refresh") is None


def test_a_broken_plugin_hides_no_other(tmp_path: Path) -> None:
    put_plugin(tmp_path, folder="broken", name="broken", protocol=1)
    put_plugin(tmp_path)
    folders = PluginFolders([tmp_path])
    assert folders.find("withings") is not None
    with pytest.raises(ManifestError, match='protocol "1" is not supported') as refused:
        folders.find("broken")
    assert refused.value.path == str(tmp_path / "broken" / "manifest.yaml")


def test_an_entrypoint_that_is_not_there_is_refused(tmp_path: Path) -> None:
    put_plugin(tmp_path, entrypoint="run.py")
    with pytest.raises(ManifestError, match=r'entrypoint "run.py" is not there'):
        PluginFolders([tmp_path]).find("withings")


def test_an_entrypoint_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    put_plugin(tmp_path, mode=0o644)
    with pytest.raises(ManifestError, match="not executable; chmod"):
        PluginFolders([tmp_path]).find("withings")


def test_a_folder_is_no_entrypoint(tmp_path: Path) -> None:
    put_plugin(tmp_path, entrypoint="bin")
    (tmp_path / "withings" / "bin").mkdir()
    with pytest.raises(ManifestError, match="is not a file"):
        PluginFolders([tmp_path]).find("withings")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    home = put_plugin(tmp_path, entrypoint="out")
    (home / "out").symlink_to("/bin/sh")
    with pytest.raises(ManifestError, match="leads out of the plugin's folder"):
        PluginFolders([tmp_path]).find("withings")


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    home = put_plugin(tmp_path, entrypoint="in")
    (home / "in").symlink_to("run.sh")
    plugin = PluginFolders([tmp_path]).find("withings")
    assert plugin is not None and plugin.entrypoint == str(home / "run.sh")


def test_a_folder_that_is_a_link_into_a_plugin_directory_is_a_plugin(tmp_path: Path) -> None:
    home = put_plugin(tmp_path / "elsewhere")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "withings").symlink_to(home)
    plugin = PluginFolders([tmp_path / "plugins", tmp_path / "elsewhere"]).find("withings")
    assert plugin is not None and plugin.entrypoint == str(home / "run.sh")


def test_a_plugin_directory_may_itself_be_a_link(tmp_path: Path) -> None:
    home = put_plugin(tmp_path / "elsewhere")
    (tmp_path / "plugins").symlink_to(tmp_path / "elsewhere")
    plugin = PluginFolders([tmp_path / "plugins"]).find("withings")
    assert plugin is not None and plugin.folder == str(home)


def test_a_folder_that_is_a_link_out_of_the_plugin_directories_is_refused(tmp_path: Path) -> None:
    home = put_plugin(tmp_path / "elsewhere")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "withings").symlink_to(home)
    folders = PluginFolders([tmp_path / "plugins"])
    with pytest.raises(ManifestError, match="a link out of plugin_dirs") as caught:
        folders.find("withings")
    assert f"name {tmp_path / 'elsewhere'} in plugin_dirs" in str(caught.value)


def test_a_manifest_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    home = put_plugin(tmp_path)
    (home / "manifest.yaml").rename(tmp_path / "theirs.yaml")
    (home / "manifest.yaml").symlink_to(tmp_path / "theirs.yaml")
    with pytest.raises(ManifestError, match="is a link out of the plugin's folder"):
        PluginFolders([tmp_path]).find("withings")


@pytest.mark.parametrize("where", ["", "withings", "withings/manifest.yaml", "withings/run.sh"])
def test_what_others_may_write_to_is_a_warning(tmp_path: Path, where: str) -> None:
    put_plugin(tmp_path)
    (tmp_path / where).chmod(0o777)
    plugin = PluginFolders([tmp_path]).find("withings")
    assert plugin is not None
    (warning,) = plugin.warnings
    assert warning.startswith(f"every user of this machine may write to {tmp_path / where}")


def test_what_only_its_owner_may_write_to_is_no_warning(tmp_path: Path) -> None:
    put_plugin(tmp_path)
    plugin = PluginFolders([tmp_path]).find("withings")
    assert plugin is not None and plugin.warnings == ()


@pytest.mark.parametrize("text", [b"a: [", b"\xff\xfe\xfa", b"[" * 100_000])
def test_a_manifest_that_is_no_yaml_is_refused(tmp_path: Path, text: bytes) -> None:
    home = put_plugin(tmp_path)
    (home / "manifest.yaml").write_bytes(text)
    with pytest.raises(ManifestError, match="is not valid YAML"):
        PluginFolders([tmp_path]).find("withings")


def test_a_manifest_without_end_is_refused(tmp_path: Path) -> None:
    home = put_plugin(tmp_path)
    (home / "manifest.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ManifestError, match="is larger than"):
        PluginFolders([tmp_path]).find("withings")


def test_a_manifest_that_unfolds_without_end_is_refused_at_once(tmp_path: Path) -> None:
    home = put_plugin(tmp_path)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 15):
        again = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{again}]")
    (home / "manifest.yaml").write_text("\n".join([*lines, "name: *a14", "protocol: *a14", "commands: *a14"]))
    with pytest.raises(ManifestError, match="must be letters") as caught:
        PluginFolders([tmp_path]).find("withings")
    assert len(str(caught.value)) < 5_000
