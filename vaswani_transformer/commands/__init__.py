"""The verbs of the command `vaswani`, one file each: options, one call, and what is said in the end.

How a verb is added: write `commands/NAME.py` with one typed function NAME whose docstring is its help (plain English, an example first),
and add it to `VERBS` in `__main__.py`. Import torch, transformers and our own modules inside the function only, or `--help` takes
seconds. A user's mistake is raised as ValueError or OSError with one clear sentence, which `__main__.py` prints behind `error: `; a value
of the command line that cannot be understood is a `typer.BadParameter`. What others can use without the command line belongs into the
package proper, not in here.
"""
