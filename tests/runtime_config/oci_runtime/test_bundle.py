# SPDX-License-Identifier: Apache-2.0
"""A bundle's config.json on disk: how it is read, replaced, and left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.runtime_config.oci_runtime.wrapper import FIRST, Wrapper, refusal
from tests.runtime_config.support import ASKING, spec


def test_owner_and_mode_are_kept(wrapper: Wrapper) -> None:
    """The edited config.json has the mode of the first, and its owner where we may set it."""
    wrapper.config.chmod(0o640)
    owner = (12, 34) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(wrapper.config, *owner)
    assert wrapper.create().status == 0
    status = wrapper.config.stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, *owner)


@pytest.mark.root
def test_the_group_is_kept_where_the_folder_gives_its_own(wrapper: Wrapper) -> None:
    """Only users who could read the first config.json may read the edited one."""
    wrapper.config.chmod(0o640)
    os.chown(wrapper.place, 0, 34)
    wrapper.place.chmod(0o2755)
    assert wrapper.create().status == 0
    assert wrapper.edited()["hooks"]["prestart"]
    assert (wrapper.config.stat().st_mode & 0o7777, wrapper.config.stat().st_gid) == (0o640, os.getegid())


def test_what_is_missing_is_named(wrapper: Wrapper) -> None:
    """A bundle without config.json, and one that is not there, is refused by its path."""
    wrapper.config.unlink()
    assert refusal(wrapper) == f"{wrapper.place}/config.json: No such file or directory"
    wrapper.place.rmdir()
    assert refusal(wrapper) == f"bundle {wrapper.place}: No such file or directory"


def test_a_pipe_is_no_spec(wrapper: Wrapper) -> None:
    """A named pipe in the place of config.json is refused and never waited for."""
    wrapper.config.unlink()
    os.mkfifo(wrapper.config)
    assert refusal(wrapper) == f"{wrapper.config}: expected a regular file"


def test_a_linked_spec_is_never_written(wrapper: Wrapper, tmp_path: Path) -> None:
    """config.json that is a link may be run, but not edited: the link's target is not the bundle's."""
    target = tmp_path / "elsewhere.json"
    target.write_text(json.dumps(spec(*ASKING, FIRST)))
    wrapper.config.unlink()
    wrapper.config.symlink_to(target)
    assert "expected a plain file" in refusal(wrapper)
    assert wrapper.config.is_symlink()
    target.write_text(json.dumps(spec()))
    assert wrapper.create().status == 0


def test_a_planted_temporary_file_is_not_followed(wrapper: Wrapper, tmp_path: Path) -> None:
    """A file at the temporary file's name is replaced, not written through."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (wrapper.place / ".config.json.cgpu").symlink_to(victim)
    wrapper.start(*ASKING, FIRST)
    assert victim.read_text() == "precious"
    assert [path.name for path in wrapper.place.iterdir()] == ["config.json"]


def test_the_rootfs_is_not_touched(wrapper: Wrapper) -> None:
    """No path inside the root file system is made, changed or even read."""
    rootfs = wrapper.place / "rootfs"
    rootfs.symlink_to("/does/not/exist")
    wrapper.start(*ASKING, FIRST)
    assert rootfs.is_symlink()


def test_a_runtime_that_cannot_start_leaves_the_bundle(wrapper: Wrapper) -> None:
    """When the low-level runtime cannot be executed, config.json is put back."""
    wrapper.runtime("")
    (wrapper.base / "runc").write_text("#!/does/not/exist\n")
    assert "runc: cannot be started (No such file or directory)" in refusal(wrapper)
