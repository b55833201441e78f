"""The bill of materials: what is linked into the program, as CycloneDX 1.5 in JSON.

It is made here and not by a tool because cargo-cyclonedx lists what all targets and tests could use, and takes minutes to
build; `cargo tree` knows exactly what is linked.
"""

import json
import uuid
from datetime import UTC, datetime

from .linked import Crate
from .project import Project


def document(project: Project, crates: list[Crate]) -> bytes:
    """The same for the same commit and target."""
    program = purl(project.package["name"], project.version)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(project.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": project.package["name"],
                "version": project.version,
                "purl": program,
                "licenses": [{"expression": project.package["license"]}],
            },
            "properties": [{"name": "pausewatch:target", "value": project.target.triple}],
        },
        "components": [component(crate) for crate in crates],
        "dependencies": [{"ref": program, "dependsOn": [purl(crate.name, crate.version) for crate in crates]}],
    }
    # The serial number is derived from the content.
    content = json.dumps(bill, sort_keys=True)
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    return (json.dumps(bill, indent=1) + "\n").encode()


def component(crate: Crate) -> dict:
    """One crate, as a scanner looks for it."""
    entry = {
        "type": "library",
        "bom-ref": purl(crate.name, crate.version),
        "name": crate.name,
        "version": crate.version,
        "purl": purl(crate.name, crate.version),
        "licenses": [{"expression": crate.licence}],
    }
    if crate.checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": crate.checksum}]
    if crate.repository:
        entry["externalReferences"] = [{"type": "vcs", "url": crate.repository}]
    return entry


def purl(name: str, version: str) -> str:
    """The package URL of a crate."""
    return f"pkg:cargo/{name}@{version.replace('+', '%2B')}"
