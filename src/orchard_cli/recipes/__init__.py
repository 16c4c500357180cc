"""Where domains are found: beside this file in a wheel, at the root of a checkout, or in `$ORCHARD_RECIPES`.

Every domain has one import name, `orchard_cli.recipes.<name>`, wherever its folder lies.
"""

import os
from pathlib import Path

_here = Path(__file__).parent
yours = [Path(p) for p in os.getenv("ORCHARD_RECIPES", "").split(os.pathsep) if p]
__path__ = [str(p) for p in (*yours, _here, _here.parents[2] / "recipes") if p.is_dir()]
