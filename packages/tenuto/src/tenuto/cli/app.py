"""The commands that run the service or look it over; those with verbs of their own stand in files beside."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from tenuto import bootstrap
from tenuto.cli.common import HERE, AsJson, Names, Place, model_names, say
from tenuto.logs import set_up_logs

app = App(
    name="tenuto",
    help="A durable job service for model inference.",
    version_flags=["--version"],
    help_format="plaintext",  # the default loads a whole Markdown parser for every `-h`
)
app.command("tenuto.cli.accounts:accounts", name="accounts", help="Who calls and who pays.")
app.command("tenuto.cli.accounts:keys", name="keys", help="API keys: shown once, stored as hashes.")
app.command("tenuto.cli.weights:app", name="models", help="Models and their weights.")
# `tenuto voices` are the caller's verbs.
app.command(
    "tenuto.cli.voices:app",
    name="voice-library",
    help="Voices that everybody may use, and those of accounts.",
)
app.command("tenuto.cli.recover:app", name="recover", help="Jobs that wait for an operator.")


@app.command
def serve(
    *,
    place: Place = HERE,
    host: str | None = None,
    port: int | None = None,
    engines: Literal["real", "fake"] | None = None,
) -> None:
    """Run everything on this machine: the API, and a worker with its engines.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port; 0 chooses a free one.
    engines
        The real engines, or the fake ones for tests and trials.
    """
    settings = place.settings(host=host, port=port, engines=engines)
    set_up_logs(settings.log_level)
    bootstrap.run_serve(settings, say)


@app.command
def api(*, place: Place = HERE, host: str | None = None, port: int | None = None) -> None:
    """Run the API alone; workers run elsewhere.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port; 0 chooses a free one.
    """
    settings = place.settings(host=host, port=port)
    set_up_logs(settings.log_level)
    bootstrap.run_api(settings, say)


@app.command
def worker(*, place: Place = HERE, models: Names = None, json: AsJson = False) -> None:
    """Run a worker alone; it says first what it can run, and why not the rest.

    Parameters
    ----------
    models
        The models to run, comma-separated; leave out for all.
    """
    from tenuto.cli.worker import teller

    settings = place.settings()
    set_up_logs(settings.log_level)
    bootstrap.run_worker(settings, model_names(models, settings), tell=teller(settings, as_json=json))


@app.command
def migrate(
    *,
    check: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Only say what is missing; fail when something is."),
    ] = False,
    place: Place = HERE,
) -> None:
    """Bring the database up to date, before the processes that serve it start."""
    from tenuto.cli.migrate import bring_up_to_date, look

    if not check:
        bring_up_to_date(place)
    elif not look(place):
        raise SystemExit(1)


@app.command
def audit(
    *,
    deep: Annotated[
        bool, Parameter(negative="", show_default=False, help="Hash every blob again, too.")
    ] = False,
    json: AsJson = False,
    place: Place = HERE,
) -> None:
    """Derive all money again from the ledger and all lives from events; fail on any discrepancy.

    It changes nothing, and may be run beside a service that works.
    """
    from tenuto.cli.audit import look

    if not look(place, deep=deep, as_json=json):
        raise SystemExit(1)


@app.command
def backup(
    folder: Path,
    *,
    leave_out_damaged: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Do without blobs that are missing or damaged already."
        ),
    ] = False,
    place: Place = HERE,
) -> None:
    """Take a backup of records and bytes, while the service runs.

    Parameters
    ----------
    folder
        A folder that is not there yet; it appears when the backup is whole.
    """
    from tenuto.cli.backup import take

    take(place, folder, leave_out_damaged=leave_out_damaged)


@app.command
def restore(
    folder: Path,
    *,
    check: Annotated[
        bool, Parameter(negative="", show_default=False, help="Verify the backup and write nothing.")
    ] = False,
    place: Place = HERE,
) -> None:
    """Verify a backup and restore it into an empty data folder and an empty database.

    Parameters
    ----------
    folder
        The backup.
    """
    from tenuto.cli.backup import put_back

    put_back(place, folder, check=check)


@app.command
def doctor(*, place: Place = HERE) -> None:
    """Check everything that serving needs; each failing line ends with the command that mends it."""
    from tenuto.cli.doctor import check

    results = check(place)
    for line in results:
        say(line.text)
    if not all(line.good for line in results):
        raise SystemExit(1)
