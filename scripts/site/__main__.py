"""Writes the site into build/docs: English at its root, Chinese in `zh/`.

    build/docs-tools/bin/python -m scripts.site [FOLDER]

The pages are staged, built by Zensical in strict mode, and then every link in the built HTML is followed.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from scripts.site.checks import faults
from scripts.site.pages import LANGUAGES, ROOT, Stage

THEME = ROOT / "docs" / "site" / "theme"
ZENSICAL = Path(sys.executable).with_name("zensical")
FEATURES = [
    "content.code.copy",
    "navigation.footer",
    "navigation.path",
    "navigation.sections",
    "navigation.tabs",
    "navigation.top",
    "search.highlight",
    "toc.follow",
]
SCHEMES = {
    "en": [("default", "sun", "Switch to the dark theme"), ("slate", "moon", "Switch to the light theme")],
    "zh": [("default", "sun", "切换到深色"), ("slate", "moon", "切换到浅色")],
}
OTHER = {
    "en": {"lang": "zh", "link": "zh/", "name": "中文"},
    "zh": {"lang": "en", "link": "../", "name": "English"},
}


def main() -> int:
    """Build into the folder and report the first fault of a kind; 1 if there is any."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve()
    work = folder.with_name(folder.name + "-work")
    shutil.rmtree(work, ignore_errors=True)
    stages = {language: Stage(language, work / language / "docs") for language in LANGUAGES}
    for language, stage in stages.items():
        stage.write()
        _configure(work / language, stage)
        command = [str(ZENSICAL), "build", "--clean", "--strict", "-f", str(work / language / "zensical.yml")]
        built = subprocess.run(command, capture_output=True, check=False, text=True)
        if built.returncode:
            print(built.stdout, built.stderr, file=sys.stderr)
            return 1
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work / "en" / "site", folder)
    shutil.copytree(work / "zh" / "site", folder / "zh")
    wrong = [*stages["en"].faults, *faults(folder)]
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    print(f"{folder / 'index.html'}: {sum(len(stage.titles) for stage in stages.values())} pages")
    return 1 if wrong else 0


def _configure(folder: Path, stage: Stage) -> None:
    """Write what Zensical reads for one language."""
    theme = shutil.copytree(THEME, folder / "theme")
    shutil.move(theme / "tenuto.css", stage.folder / "tenuto.css")
    version = tomllib.loads((ROOT / "packages" / "tenuto" / "pyproject.toml").read_text("utf-8"))
    toggles = [
        {
            "scheme": scheme,
            "media": f"(prefers-color-scheme: {'light' if scheme == 'default' else 'dark'})",
            "primary": "custom",
            "accent": "custom",
            "toggle": {"icon": f"lucide/{icon}", "name": name},
        }
        for scheme, icon, name in SCHEMES[stage.language]
    ]
    configuration = {
        "site_name": f"Tenuto {version['project']['version']}",
        "docs_dir": "docs",
        "site_dir": "site",
        "nav": stage.navigation(),
        "use_directory_urls": False,
        "theme": {
            "language": stage.language,
            "custom_dir": "theme",
            "font": False,
            "features": FEATURES,
            "palette": toggles,
            "icon": {"logo": "lucide/audio-lines"},
        },
        "extra_css": ["tenuto.css"],
        "extra": {"alternate": [OTHER[stage.language]], "generator": False},
        "plugins": ["search"],
        "markdown_extensions": [
            "admonition",
            "attr_list",
            "md_in_html",
            "tables",
            {
                "toc": {
                    "permalink": True,
                    "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
                }
            },
            {"pymdownx.highlight": {"pygments_lang_class": True}},
            "pymdownx.superfences",
            "pymdownx.inlinehilite",
        ],
    }
    text = yaml.safe_dump(configuration, allow_unicode=True, sort_keys=False)
    (folder / "zensical.yml").write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
