# SPDX-License-Identifier: Apache-2.0
"""Tools that make packages: manual pages and completion out of the commands' parsers. Not in the wheel."""
