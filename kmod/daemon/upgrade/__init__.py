# SPDX-License-Identifier: Apache-2.0
"""A daemon goes on as another program, in the same process, while containers run."""
