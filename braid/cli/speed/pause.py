"""`braid stream pause` and `braid ingest pause`: a person's button, which rests what runs until it is to go on."""

from collections.abc import Callable

from braid.cli.output import console
from braid.deploy.pauses import Pausable, set_pause
from braid.errors import BraidError
from braid.runtime.settings import current_settings

WORDS = ("pause", "resume")


def was_paused_or_resumed(kind: Pausable, names: list[str] | None, require: Callable[[str], object]) -> bool:
    """Whether the first word was `pause` or `resume`, and names followed; then it is done."""
    if not names or names[0] not in WORDS:
        return False
    word, chosen = names[0], tuple(names[1:])
    if not chosen:
        what = "view" if kind == "stream" else "source"
        raise BraidError(f"`braid {kind} {word}` needs the name of a {what}: `braid {kind} {word} NAME`.")
    for name in chosen:
        require(name)
    said = set_pause(current_settings(), kind, chosen, is_paused=word == "pause")
    resting = ", ".join(said.of(kind)) or "nothing"
    said_so = f"paused: {resting}. What runs sees it within a second or two."
    console.print(said_so, highlight=False, markup=False, soft_wrap=True)
    return True
