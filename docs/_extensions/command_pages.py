"""The reference of the command line, written from the commands themselves."""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from typer import Context
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from knet.cli.app import app as typer_app

PAGE = "generated/commands.md"
INTRODUCTION = """# Commands

What `knet COMMAND --help` prints, for every command. [The command line](../cli.md) explains the commands with examples
and their output.
"""


def reference() -> str:
    """Return the page: a section for each command, with its arguments and options."""
    group = get_command(typer_app)
    assert isinstance(group, TyperGroup)
    parent = Context(group, info_name="knet")
    commands = [command for command in group.commands.values() if isinstance(command, TyperCommand)]
    return "\n".join([INTRODUCTION, *(section(command, parent) for command in commands)])


def section(command: TyperCommand, parent: Context) -> str:
    """Return the section of a command: its help, its usage, a definition list of its parameters, and examples."""
    context = Context(command, info_name=command.name, parent=parent)
    usage = command.get_usage(context).removeprefix("Usage: ")
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    entries = "\n".join(f"`{record[0]}`\n: {record[1]}\n" for record in records if record)
    heading, _, examples = (command.epilog or "").partition(":  ")
    lines = "\n".join(f"$ {example}" for example in examples.split("   |   "))
    parts = [f"## knet {command.name}", command.help, f"```text\n{usage}\n```", entries, f"{heading}:"]
    return "\n\n".join([*filter(None, parts), f"```console\n{lines}\n```\n"])


def write_reference(app: Sphinx) -> None:
    """Write the page, if it has changed, before Sphinx looks for pages."""
    path = Path(app.srcdir) / PAGE
    path.parent.mkdir(exist_ok=True)
    text = reference()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension."""
    app.connect("builder-inited", write_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
