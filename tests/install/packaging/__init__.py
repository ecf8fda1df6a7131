# SPDX-License-Identifier: Apache-2.0
"""Tests of the wheel, the Debian packages, and what is set up from them."""
