# SPDX-License-Identifier: Apache-2.0
"""What is so on this machine: read only, below a root folder, with bounds on time and size."""
