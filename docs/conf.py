"""The documentation's settings; see https://www.sphinx-doc.org. `scripts/test.sh` builds it strictly."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(ROOT)]
os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # the build's output is its warnings
os.environ["HF_HUB_OFFLINE"] = "1"

project = "vaswani_transformer"
author = "the vaswani_transformer contributors"
copyright = f"2026, {author}"
html_title = project
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.coverage", "sphinx.ext.napoleon", "made_from_code"]
exclude_patterns = ["_extensions", "measured"]  # tables there are included by pages
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

# Docstrings are Google style; single backticks there are code, as everywhere else in the project.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 90

# `-b coverage -q -W` fails where a public name is not in the API reference, which it is when it has a docstring.
coverage_modules = ["vaswani_transformer"]
coverage_ignore_modules = [r"(.*\.builtin\.)?(author|grammar|lexicon|sentences)$"]
coverage_show_missing_items = True
coverage_statistics_to_stdout = False

# Types of other libraries are named without a link: their inventories would need the network. Our own must resolve.
nitpick_ignore_regex = [(r"py:.*", r"(?!vaswani_transformer\b).*")]
