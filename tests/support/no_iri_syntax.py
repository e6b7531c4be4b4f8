"""A plugin of pytest that keeps jsonschema from importing its check of IRIs.

The check takes three seconds to import, in each process that runs tests, and no test needs it.
pyproject.toml loads this file before nbval imports jsonschema.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # an import then fails
