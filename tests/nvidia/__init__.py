# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own software from Debian's archive: what the tests of others' software share."""
