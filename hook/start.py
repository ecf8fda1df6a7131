# SPDX-License-Identifier: Apache-2.0
"""Start the hook in Python: python3 -IS start.py ARGUMENTS…, called by the C program cgpu-hook."""

import os
import sys

up = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# In a checkout the package lies beside this folder; installed, it is the folder above.
sys.path.append(up if os.path.isdir(up + "/cgpu") else os.path.dirname(up))

from cgpu.hook.main import main  # noqa: E402 (the path must be known first)

os._exit(main())  # nothing is buffered, and an orderly end of the interpreter takes a millisecond more
