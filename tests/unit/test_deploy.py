"""What `deploy/` has is valid by the ordinary validators, and its commands are ours."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import tools
import yaml

from gossamer.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "gossamer"
BIN = Path(sys.executable).parent
NEEDED = ("--set", "crawl=s3://b/c", "--set", "seeds={http://a.test/,http://b.test/}", "--set", "contact=me@a.test")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MOST_EXPOSED = 30  # tenths


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def rendered(*options: str) -> list[dict[str, Any]]:
    done = run(BIN / "helm", "template", "first", CHART, *NEEDED, *options)
    assert not done.returncode, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def test_the_chart_passes_helms_linter() -> None:
    done = run(BIN / "helm", "lint", "--strict", CHART, *NEEDED)
    assert not done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--set", "autoscaling.enabled=true"),
        ("--set", "credentialsSecret=bucket", "--set", "serviceAccount.annotations.role=x"),
    ],
)
def test_what_it_renders_fits_the_schemas_of_kubernetes(options: tuple[str, ...]) -> None:
    documents = rendered(*options)
    assert {document["kind"] for document in documents} >= {"Deployment", "ConfigMap", "ServiceAccount"}
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    ("options", "agents"), [((), "--agents=2"), (("--set", "autoscaling.enabled=true"), "--agents=1..8")]
)
def test_as_many_agents_as_there_may_be_pods(options: tuple[str, ...], agents: str) -> None:
    (supervisor,) = (one for one in rendered(*options) if one["metadata"]["name"] == "first-supervisor")
    assert agents in supervisor["spec"]["template"]["spec"]["containers"][0]["args"]


def test_what_it_needs_is_asked_for_by_name() -> None:
    for name in ("crawl", "seeds", "contact"):
        others = [pair for pair in zip(NEEDED[::2], NEEDED[1::2], strict=True) if not pair[1].startswith(f"{name}=")]
        done = run(BIN / "helm", "template", "first", CHART, *(part for pair in others for part in pair))
        assert done.returncode
        assert f"set {name}:" in done.stderr


def test_its_configuration_is_one_of_ours() -> None:
    from gossamer.config import Config

    (found,) = (each["data"] for each in rendered() if each["kind"] == "ConfigMap")
    Config().replace(tomllib.loads(found["gossamer.toml"]))
    assert found["seeds.txt"] == "http://a.test/\nhttp://b.test/\n"


def test_the_compose_file_fits_its_schema() -> None:
    done = run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
    assert not done.returncode, done.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    analyze = tools.need("systemd-analyze")
    done = run(analyze, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--json=short", unit)
    assert not done.returncode, done.stdout + done.stderr
    copy = tmp_path / unit.name  # nothing is installed in /opt here
    copy.write_text(unit.read_text().replace("/opt/gossamer/bin/gossamer", sys.executable))
    checked = run(analyze, "verify", "--man=no", "--recursive-errors=no", copy)
    assert (checked.returncode, checked.stderr) == (0, "")


def commands() -> list[list[str]]:
    """All commands that the files give to Gossamer, word by word."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    found = [service["command"] for service in services.values() if service.get("image") == "gossamer"]
    pods = [document["spec"]["template"]["spec"] for document in rendered() if document["kind"] == "Deployment"]
    found += [pod["containers"][0]["args"] for pod in pods]
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=\S+/gossamer (.*)$", unit.read_text(), re.MULTILINE)
        found.append(line.split())
    return found


def test_commands_have_only_options_that_exist() -> None:
    found = commands()
    assert len(found) == 6
    for words in found:
        assert words[0] in COMMANDS
        known = run(sys.executable, "-m", "gossamer", words[0], "--help").stdout
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert {option for option in options if option not in known} == set()


def board_queries() -> list[str]:
    """All expressions of the Grafana board, with its variables filled in."""
    board = json.loads((DEPLOY / "grafana" / "gossamer.json").read_text())
    return [each["expr"].replace("$instance", ".*") for panel in board["panels"] for each in panel["targets"]]


def test_the_board_and_the_alerts_ask_for_metrics_that_exist() -> None:
    from gossamer.watch import metrics

    kinds = (value for value in vars(metrics).values())
    families = [each for value in kinds for each in (value.values() if isinstance(value, dict) else (value,))]
    known = {
        f"{each.name}{'_total' * (each.kind == 'counter')}" for each in families if isinstance(each, metrics.Family)
    }
    asked = [*board_queries(), (DEPLOY / "prometheus" / "alerts.yaml").read_text()]
    names = {name for text in asked for name in re.findall(r"\bgossamer_[a-z_]+", text)}
    assert len(names) > 10
    assert names - known == set()


def test_promtool_accepts_the_rules_and_their_tests_pass(tmp_path: Path) -> None:
    folder = DEPLOY / "prometheus"
    asked = {"record": "board:query", "labels": {"n": "0"}}
    rules = [{**asked, "expr": query, "labels": {"n": str(n)}} for n, query in enumerate(board_queries())]
    (tmp_path / "board.yaml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    for words in (
        ("check", "config", folder / "prometheus.yaml"),
        ("check", "rules", folder / "alerts.yaml", tmp_path / "board.yaml"),
        ("test", "rules", folder / "alerts.test.yaml"),
    ):
        done = run(tools.need("promtool"), *words)
        assert not done.returncode, done.stdout + done.stderr
