"""`braid monitor`: rules for Prometheus and a dashboard for Grafana, made from the metrics that there are."""

import typer

app = typer.Typer(no_args_is_help=True, help="What Prometheus and Grafana need to watch the platform.")


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="monitor")


@app.command()
def rules() -> None:
    """Print alert rules for Prometheus, one or more for each runbook. Example: `braid monitor rules > braid.yml`"""
    import yaml

    from serving_layer.http.monitoring import prometheus_rules

    print(yaml.safe_dump(prometheus_rules(), sort_keys=False, width=200), end="")


@app.command()
def dashboard() -> None:
    """Print a dashboard for Grafana to import. Example: `braid monitor dashboard > braid.json`"""
    from braid.cli.output import print_json
    from serving_layer.http.monitoring import grafana_dashboard

    print_json(grafana_dashboard())
