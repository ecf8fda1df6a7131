# SPDX-License-Identifier: Apache-2.0
"""Facts of this machine: read only, below a root folder, with bounds on time and size."""
