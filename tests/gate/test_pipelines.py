"""The pipeline files, run as far as they run without GitHub and GitLab: action.yml's steps, the hooks, the job."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from repositories import RECORDED, WITH_CLOCK, WITHOUT_CLOCK, Repository, clean_environment, needs_command

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, CHECK = ACTION["runs"]["steps"]
HOOKS = ROOT / ".pre-commit-hooks.yaml"
GITLAB = ROOT / "docs/ci/gitlab-ci.yml"
HEAD = "a" * 64
STOPPED = "::stop-commands::"


def needs(name: str) -> ModuleType:
    module: ModuleType = pytest.importorskip(name, reason=f"{name} is part of the dev extra")
    return module


def log_of(front: bool) -> str:
    """Return 40 requests of 80 bytes; 39 find the 64 that they share, or none where their own 16 stand in front."""
    own = [f"{n:08d}"[::-1] + "." * 8 for n in range(40)]
    prompts = [text + HEAD if front else HEAD + text for text in own]
    return "".join(
        json.dumps({"id": f"r{n}", "ts": n, "prompt": one}) + "\n" for n, one in enumerate(prompts)
    )


class Runner:
    """What GitHub's runner does for a composite action: inputs and files come in through the environment."""

    def __init__(self, folder: Path) -> None:
        needs_command()
        if shutil.which("bash") is None:
            pytest.skip("bash is not installed")
        self.folder = folder
        self.outputs, self.summary = folder.parent / "outputs", folder.parent / "summary"

    def step(self, step: dict[str, Any], **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: str(one["default"]) for name, one in ACTION["inputs"].items()} | inputs
        values = {f"${{{{ inputs.{name} }}}}": value for name, value in given.items()}
        environment = {name: values[expression] for name, expression in step["env"].items()}
        environment |= {"GITHUB_OUTPUT": str(self.outputs), "GITHUB_STEP_SUMMARY": str(self.summary)}
        program = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        return subprocess.run(
            program,
            cwd=self.folder,
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            check=False,
        )

    def said(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.outputs.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    folder = tmp_path / "checked out"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs/good shop.jsonl").write_text(log_of(front=False))
    (folder / "logs/bad shop.jsonl").write_text(log_of(front=True))
    return Runner(folder)


class TestAction:
    @pytest.mark.parametrize(
        ("name", "file"),
        [("github-actions", ROOT / "action.yml"), ("gitlab-ci", GITLAB)],
        ids=["github", "gitlab"],
    )
    def test_the_files_are_what_their_schemas_want(self, name: str, file: Path) -> None:
        vendored = (
            Path(needs("check_jsonschema.builtin_schemas").__file__ or "").parent / "vendor" / f"{name}.json"
        )
        schema = json.loads(vendored.read_text())
        validators = needs("jsonschema").validators
        validators.validator_for(schema)(schema).validate(yaml.safe_load(file.read_text()))

    def test_no_value_is_written_into_a_command_line(self) -> None:
        for step in ACTION["runs"]["steps"]:
            assert "${{" not in step["run"]

    def test_every_input_reaches_a_step(self) -> None:
        used = json.dumps(ACTION["runs"])
        assert all(f"inputs.{name} " in used for name in ACTION["inputs"])

    def test_a_failed_gate_ends_with_1_and_annotates(self, runner: Runner) -> None:
        done = runner.step(
            CHECK, paths="logs/bad shop.jsonl\n", args="--min-hit-rate 0.6 --tokenizer 'bytes'"
        )
        assert done.returncode == 1, done.stdout + done.stderr
        said = runner.said()
        assert said == {
            "exit-code": "1", "sarif": "kvtools-reports/check.sarif", "comment": "kvtools-reports/check.md",
        }  # fmt: skip
        shown, token, commands = _parted(done.stdout)
        assert "FAIL  hit rate 0.0 %" in shown
        assert token not in shown
        assert commands
        assert all(line.startswith(("::error file=logs/bad shop.jsonl,", "::warning ")) for line in commands)
        assert runner.summary.read_text().startswith("**kvtools check failed:**")
        reports = {path.name for path in (runner.folder / "kvtools-reports").iterdir()}
        assert reports == {"check.sarif", "check.junit.xml", "check.json", "check.md", "check.github.txt"}

    def test_a_passed_gate_ends_with_0(self, runner: Runner) -> None:
        done = runner.step(CHECK, paths="logs/good shop.jsonl", args="--min-hit-rate 0.6 --tokenizer bytes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert runner.said()["exit-code"] == "0"
        assert "::error" not in done.stdout

    def test_values_of_inputs_are_never_run(self, runner: Runner) -> None:
        bad = "$(touch owned); `touch owned`\n'; touch owned; '\n--help\n"
        done = runner.step(CHECK, paths=bad, args='"$(touch owned)"', reports="out $(touch owned)")
        # The word of args comes first as a path, and no such file is there.
        assert done.returncode == 3, done.stdout + done.stderr
        assert {path.name for path in runner.folder.iterdir()} == {"logs", "out $(touch owned)"}

    def test_arguments_that_cannot_be_split_are_no_pass(self, runner: Runner) -> None:
        done = runner.step(CHECK, paths="logs/bad shop.jsonl", args="--tokenizer bytes --min-hit-rate '0.6")
        assert done.returncode == 2
        assert "close the quotes" in done.stderr

    def test_reports_of_an_earlier_run_are_gone(self, runner: Runner) -> None:
        reports = runner.folder / "kvtools-reports"
        reports.mkdir()
        (reports / "check.github.txt").write_text("::error::of yesterday\n")
        done = runner.step(CHECK, paths="logs/none.jsonl", args="--min-hit-rate 0.6")
        assert done.returncode == 3
        assert "yesterday" not in done.stdout
        assert runner.said() == {"exit-code": "3"}

    @pytest.mark.wheel
    def test_the_install_step_brings_the_command(self, tmp_path: Path) -> None:
        path = tmp_path / "path"
        environment = clean_environment(
            KVTOOLS_SOURCE=str(ROOT), RUNNER_TEMP=str(tmp_path / "runner"), GITHUB_PATH=str(path)
        )
        (tmp_path / "runner").mkdir()
        subprocess.run(["bash", "-e", "-c", INSTALL["run"]], env=environment, cwd=tmp_path, check=True)
        command = Path(path.read_text().strip()) / "kvtools"
        subprocess.run([command, "--version"], cwd=tmp_path, check=True)


def _parted(output: str) -> tuple[str, str, list[str]]:
    """Return what is shown, the token that ends it, and the workflow commands behind."""
    first, _, rest = output.partition("\n")
    assert first.startswith(STOPPED)
    token = first.removeprefix(STOPPED)
    shown, end, behind = rest.partition(f"\n::{token}::\n")
    assert end
    return shown, token, behind.splitlines()


def test_the_gitlab_job_writes_what_it_hands_over(tmp_path: Path) -> None:
    needs_command()
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/shop.j2").write_text(WITHOUT_CLOCK)
    (tmp_path / "prompts/values.jsonl").write_text(RECORDED)
    given = ["--templates", "prompts", "--values", "prompts/values.jsonl"]
    where: dict[str, Any] = {"cwd": tmp_path, "env": clean_environment()}
    subprocess.run(["kvtools", "baseline", *given, "-o", "prompts/baseline.json"], check=True, **where)
    (tmp_path / "prompts/shop.j2").write_text(WITH_CLOCK)
    job = yaml.safe_load(GITLAB.read_text())["kvtools"]
    (line,) = job["script"]
    assert subprocess.run(["sh", "-e", "-c", line], check=False, capture_output=True, **where).returncode == 1
    artifacts = job["artifacts"]
    for name in (*artifacts["paths"], *artifacts["reports"].values()):
        assert (tmp_path / name).stat().st_size
    (first, *_) = json.loads((tmp_path / artifacts["reports"]["codequality"]).read_text())
    assert first["location"] == {"path": "prompts/shop.j2", "lines": {"begin": 1}}


@pytest.fixture
def committed(tmp_path: Path) -> Repository:
    """A repository with a template that breaks reuse, one that does not, and a log that normalize would change."""
    needs("pre_commit")
    needs_command()
    made = Repository(tmp_path / "service")
    made.write("prompts/shop.j2", WITHOUT_CLOCK)
    made.write("prompts/values.jsonl", RECORDED)
    made.write("chat/clock.jinja", WITH_CLOCK)
    made.write("logs/bad.jsonl", log_of(front=True))
    made.write("logs/good.jsonl", log_of(front=False))
    return made


def pre_commit(repository: Repository, *args: str) -> tuple[int, str]:
    home = str(repository.path.parent / "hooks")
    done = repository.run(sys.executable, "-m", "pre_commit", *args, PRE_COMMIT_HOME=home)
    return done.returncode, done.stdout + done.stderr


def local_hooks(**args: list[str]) -> str:
    """Return a configuration of the published hooks that runs the installed command instead of building one."""
    hooks = [
        hook | {"language": "system", "args": args.get(hook["id"].replace("-", "_"), [])}
        for hook in yaml.safe_load(HOOKS.read_text())
    ]
    return yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]})


class TestHooks:
    def test_the_manifest_is_one(self) -> None:
        manifest = needs("pre_commit.clientlib").load_manifest(str(HOOKS))
        assert [(hook["id"], hook["language"]) for hook in manifest] == [
            ("kvtools-lint-templates", "python"),
            ("kvtools-normalize-check", "python"),
            ("kvtools-check", "python"),
        ]

    def test_each_hook_fails_on_its_own_files(self, committed: Repository) -> None:
        gate = [
            "--templates",
            "prompts",
            "--values",
            "prompts/values.jsonl",
            "--tokenizer",
            "bytes",
            "--min-hit-rate",
            "0.6",
        ]
        hooks = local_hooks(kvtools_normalize_check=["--tokenizer", "bytes"], kvtools_check=gate)
        committed.write(".pre-commit-config.yaml", hooks)
        committed.ended("git", "add", "--all")
        code, said = pre_commit(committed, "run", "--all-files", "kvtools-lint-templates")
        assert code == 1, said
        assert "chat/clock.jinja:1" in said
        code, said = pre_commit(committed, "run", "kvtools-lint-templates", "--files", "prompts/shop.j2")
        assert code == 0, said
        code, said = pre_commit(committed, "run", "kvtools-normalize-check", "--files", "logs/bad.jsonl")
        assert (code, "would change" in said) == (1, True), said
        code, said = pre_commit(committed, "run", "kvtools-normalize-check", "--files", "logs/good.jsonl")
        assert code == 0, said
        # One of 40 hits nothing, 39 find the 1,024 bytes that all begin with.
        code, said = pre_commit(committed, "run", "kvtools-check", "--files", "prompts/shop.j2")
        assert code == 0, said
        committed.write("prompts/shop.j2", WITH_CLOCK)
        committed.ended("git", "add", "--all")
        code, said = pre_commit(committed, "run", "kvtools-check", "--files", "prompts/shop.j2")
        assert (code, "exit code: 1" in said, "prompts/shop.j2:1" in said) == (1, True, True), said

    @pytest.mark.wheel
    def test_try_repo_builds_and_runs_them(self, committed: Repository, tmp_path: Path) -> None:
        hooks = Repository(tmp_path / "kvtools")
        for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
            shutil.copy(ROOT / name, hooks.path)
        for name in ("kvtools", "templates"):
            shutil.copytree(ROOT / name, hooks.path / name, ignore=shutil.ignore_patterns("__pycache__"))
        hooks.commit("The hooks")
        committed.ended("git", "add", "--all")
        try_repo = ("try-repo", os.fspath(hooks.path), "kvtools-lint-templates", "--files")
        code, said = pre_commit(committed, *try_repo, "chat/clock.jinja")
        assert (code, "chat/clock.jinja:1" in said) == (1, True), said
        code, said = pre_commit(committed, *try_repo, "prompts/shop.j2")
        assert code == 0, said


def test_the_documented_jobs_are_the_files(data: Path) -> None:
    page = (data.parent / "docs/ci.md").read_text()
    for name in ACTION["inputs"]:
        assert f"`{name}`" in page or f"{name}:" in page, name
    for hook in yaml.safe_load(HOOKS.read_text()):
        assert f"| `{hook['id']}` |" in page
    (line,) = yaml.safe_load(GITLAB.read_text())["kvtools"]["script"]
    words = shlex.split(line)
    assert {"junit=kvtools.junit.xml", "gitlab=kvtools.codequality.json", "md=kvtools.md"} < set(words)
