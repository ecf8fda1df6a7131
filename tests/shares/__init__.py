# SPDX-License-Identifier: Apache-2.0
"""The scheduler and a card in virtual time: the card keeps the policies' promises."""
