# SPDX-License-Identifier: Apache-2.0
"""Start the runtime wrapper: python3 -IS launch.py ARGUMENTS…, called by the C launcher."""

import os
import sys

package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# In a checkout the package lies below this folder; installed, this folder is the package.
inside = os.path.exists(package + "/cgpu/__init__.py")
sys.path.append(package if inside else os.path.dirname(package))

from cgpu.runtime_config.oci_runtime.main import main  # noqa: E402 (the path must be known first)

sys.exit(main(sys.argv[1:]))
