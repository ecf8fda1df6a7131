# SPDX-License-Identifier: Apache-2.0
"""Every command of the documents is carried out, or it is said why not."""
