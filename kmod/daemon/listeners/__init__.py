# SPDX-License-Identifier: Apache-2.0
"""Seccomp listeners of containers, and the filters of their processes."""
