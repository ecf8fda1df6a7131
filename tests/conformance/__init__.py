# SPDX-License-Identifier: Apache-2.0
"""Cases for every engine's tree: written once as data, carried out where an engine runs."""
