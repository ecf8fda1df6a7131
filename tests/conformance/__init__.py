# SPDX-License-Identifier: Apache-2.0
"""What every engine's tree does: written once as data, carried out where an engine runs."""
