# SPDX-License-Identifier: Apache-2.0
"""Tests of the event log and of `cgpu events`."""
