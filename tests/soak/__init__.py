# SPDX-License-Identifier: Apache-2.0
"""A soak of each engine, as a command: python -m tests.soak cgpud|cgpu_km."""
