"""`braid init`: a project of one's own, guessed from a sample of its events."""

from pathlib import Path
from typing import Annotated

import typer

from braid.cli.output import print_table, say


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where it is written; made if need be.")
    ] = Path(),
    from_file: Annotated[
        Path | None,
        typer.Option(help="Guess the source from this file: .jsonl, .csv or .tsv."),
    ] = None,
) -> None:
    """Begin a project: definitions guessed from a sample, settings, DAGs, CI and a README.

    Types, event time, id and zone are guessed, and each guess is said, here and in the definitions. Without a sample
    it begins with the orders of a shop. Nothing that is there already is touched.

    Example: `braid init shop --from-file orders.jsonl`
    """
    from braid.project.sample import from_file as read_file
    from braid.project.scaffold import Origin, made_up, named, project, write

    if from_file:
        file = from_file.resolve()
        origin, sample = Origin(named(file.name.partition(".")[0]), files=str(file)), read_file(file)
    else:
        origin, sample = Origin("orders", topic="orders"), made_up()
    files, found = project(origin, sample)
    write(folder, files)
    print_table(
        f"guessed from {len(sample.events)} events",
        ("what", "guess", "why"),
        ((one.part, one.guess, one.why) for one in found.guesses),
    )
    say(f"Written in {folder.resolve()}: {', '.join(files)}")
    say(f"Next: {f'cd {folder} && ' if folder != Path() else ''}braid check; then braid up, and braid query.")
