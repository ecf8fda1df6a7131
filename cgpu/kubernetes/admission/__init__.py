# SPDX-License-Identifier: Apache-2.0
"""Admission: pods that ask by the resource names of other systems get claims, and claims are checked."""
