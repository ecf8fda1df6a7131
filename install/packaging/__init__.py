# SPDX-License-Identifier: Apache-2.0
"""What packages are made with: manual pages and completion out of the commands' parsers. Not in the wheel."""
