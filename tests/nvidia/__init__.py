# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own software from Debian's archive: parts of the tests of foreign software."""
