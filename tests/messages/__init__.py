# SPDX-License-Identifier: Apache-2.0
"""What people type wrongly, and what is said of it."""
