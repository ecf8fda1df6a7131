# SPDX-License-Identifier: Apache-2.0
"""cgpu doctor: every check a support engineer would do, each with the command that helps."""
