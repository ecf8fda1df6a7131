# SPDX-License-Identifier: Apache-2.0
"""The subcommands of cgpu that install, check and maintain a node, one file or folder for each."""
