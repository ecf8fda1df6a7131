# SPDX-License-Identifier: Apache-2.0
"""Each field that the checks prove: a table that has it at another place does not pass."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cgpu.check_driver.run import PROGRAM
from tests.check_driver.tables import has, moved, mutant
from tests.sim.conftest import Start

pytestmark = pytest.mark.root

# Each with a card of its own; most of the time goes in waiting for memory that does not come back.
THREADS = 6
PROVEN = {
    "NVOS00_PARAMETERS": "bytes hRoot hObjectOld status",
    "NVOS21_PARAMETERS": "bytes hRoot hObjectParent hObjectNew hClass pAllocParms status",
    "NVOS64_PARAMETERS": "bytes hRoot hObjectParent hObjectNew hClass pAllocParms status",
    "NVOS32_PARAMETERS": "bytes hRoot hObjectParent function status total free",
    "NVOS54_PARAMETERS": "bytes hClient hObject cmd params paramsSize status",
    "NVOS55_PARAMETERS": "bytes hClient hParent hObject hClientSrc hObjectSrc status",
    "nv_ioctl_xfer_t": "bytes cmd size ptr",
    "NV_MEMORY_ALLOCATION_PARAMS": "bytes owner type flags attr attr2 size limit",
    "NV0080_ALLOC_PARAMETERS": "bytes deviceId",
    "NV2080_ALLOC_PARAMETERS": "bytes",
    "NV_VASPACE_ALLOCATION_PARAMETERS": "bytes",
    "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS": "bytes hVASpace",
    "NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS": "bytes",
    "NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS": "bytes",
    "NV2080_CTRL_FB_INFO": "bytes index data",
    "NV2080_CTRL_FB_GET_INFO_PARAMS": "fbInfoListSize fbInfoList",
    "NV2080_CTRL_FB_GET_INFO_V2_PARAMS": "bytes fbInfoListSize fbInfoList",
    "NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS": "bytes numFBRegions fbRegion",
    "NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO": "base limit",
    "NV2080_CTRL_GPU_GET_PIDS_PARAMS": "bytes id pidTblCount pidTbl",
    "NV2080_CTRL_GPU_GET_PID_INFO_PARAMS": "bytes pidInfoListCount pidInfoList",
    "NV2080_CTRL_GPU_PID_INFO": "bytes pid index result data.vidMemUsage.memPrivate",
    "NV2080_CTRL_GPU_GET_INFO_V2_PARAMS": "bytes gpuInfoListSize gpuInfoList",
    "NV2080_CTRL_GPU_INFO": "index data",
    "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS": "bytes flags length data",
    "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS": "bytes gpuNameString",
    "NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS": "bytes",
    "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS": "bytes gpuId",
    "NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS": "bytes object.type object.data.rmObject.hObject fd",
    "NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS": (
        "bytes fd object.type object.data.rmObject.hParent object.data.rmObject.hObject"
    ),
    "NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS": "bytes maxObjects metadata fd",
    "NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS": "bytes fd maxObjects metadata",
    "NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS": "bytes fd hDevice maxObjects objects numObjects",
    "NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS": "bytes fd hParent objects numObjects",
    "nv_ioctl_card_info_t": "valid gpu_id",
    "nv_ioctl_register_fd_t": "bytes",
    "nv_ioctl_nvos02_parameters_with_fd": "bytes params.status",
    "UVM_INITIALIZE_PARAMS": "bytes flags rmStatus",
    "UVM_MM_INITIALIZE_PARAMS": "bytes uvmFd rmStatus",
    "UVM_REGISTER_GPU_PARAMS": "bytes gpu_uuid rmStatus",
    "UVM_UNREGISTER_GPU_PARAMS": "bytes gpu_uuid rmStatus",
    "UVM_REGISTER_GPU_VASPACE_PARAMS": "bytes gpuUuid hClient hVaSpace rmStatus",
    "UVM_UNREGISTER_GPU_VASPACE_PARAMS": "bytes gpuUuid rmStatus",
    "UVM_CREATE_EXTERNAL_RANGE_PARAMS": "bytes base length rmStatus",
    "UvmGpuMappingAttributes": "gpuUuid",
    "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS": (
        "bytes base length offset perGpuAttributes gpuAttributesCount hClient hMemory rmStatus"
    ),
    "UVM_UNMAP_EXTERNAL_PARAMS": "bytes base length gpuUuid rmStatus",
    "UVM_FREE_PARAMS": "bytes base length rmStatus",
    "UVM_ALLOC_DEVICE_P2P_PARAMS": "bytes rmStatus",
    "UVM_ALLOC_SEMAPHORE_POOL_PARAMS": "bytes rmStatus",
}
# Runs a program as the second process of a pid namespace: a number as small as a count.
SMALL_PID = ("/usr/bin/unshare", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", '"$0" "$@"; exit $?')
HEAP = {
    "AllocSize": "owner hMemory type flags attr attr2 size limit",
    "AllocSizeRange": "owner hMemory type flags attr attr2 size limit",
    "AllocTiledPitchHeight": "owner hMemory type flags height pitch attr attr2 size limit",
    "Free": "hMemory flags",
    "Info": "size",
}
FIELDS = [(name, field) for name, fields in PROVEN.items() for field in fields.split()]
FIELDS += [
    ("NVOS32_PARAMETERS", f"data.{part}.{field}") for part, fields in HEAP.items() for field in fields.split()
]


def passes(program: Path, mount: Path, runner: tuple[str, ...] = ()) -> bool:
    """Tell whether a program finds nothing; one that fails, or ends by itself, does not pass."""
    command: list[str | Path] = [*runner, program, "--dev", mount, "--attempts", "1"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def survivors(fields: list[tuple[str, str]], mount: Path, version: str, directory: Path) -> list[str]:
    """Return the fields that pass on a card of this version from a wrong place."""
    found = []
    for name, field in fields:
        for wrong in moved(name, field, version) if has(name, field, version) else []:
            program = mutant(name, field, wrong, version, directory)
            if passes(program, mount):
                found.append(f"{name}.{field} at {wrong}")
            program.unlink()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", ["515.105.01", "580.142"])
def test_each_field(start: Start, tmp_path: Path, version: str) -> None:
    """With any of these at another place in the table the check of the same driver fails."""
    mounts = [start("T4", version).mount for _ in range(THREADS)]
    assert all(passes(PROGRAM, mount) for mount in mounts)
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [
            pool.submit(survivors, FIELDS[number::THREADS], mount, version, tmp_path)
            for number, mount in enumerate(mounts)
        ]
    assert [line for part in parts for line in part.result()] == []


def test_process_number_for_count(start: Start, tmp_path: Path) -> None:
    """The number of a process in the place of the count is no count, however small it is."""
    mount, version, name = start("T4", "580.142").mount, "580.142", "NV2080_CTRL_GPU_GET_PIDS_PARAMS"
    assert passes(PROGRAM, mount, SMALL_PID)
    late = max(moved(name, "pidTblCount", version))
    assert not passes(mutant(name, "pidTblCount", late, version, tmp_path), mount, SMALL_PID)
