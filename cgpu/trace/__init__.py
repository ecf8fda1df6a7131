# SPDX-License-Identifier: Apache-2.0
"""Recorded driver calls: recording, reading, showing and replaying them."""
