# SPDX-License-Identifier: Apache-2.0
"""The event log: which slices have started, were refused and have ended."""
