"""Files, names, diff, patch, uploaded trees."""

import hashlib
import io
import tarfile

import pytest

from .conftest import Reply, Rest


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def put(rest: Rest, data: bytes, hash: str = "") -> Reply:
    return rest("PUT", f"/v1/trees/{hash or hashlib.sha256(data).hexdigest()}", data)


@pytest.mark.parametrize("size", [0, 1, 4 << 20, (9 << 20) + 17])
def test_a_file_of_any_size_comes_back_as_it_went(rest: Rest, size: int) -> None:
    id, data = rest.make(), (b"0123456789abcde" * (size // 15 + 1))[:size]
    path, digest = f"/v1/sandboxes/{id}/files", hashlib.sha256(data).hexdigest()
    sent = rest("PUT", path, data, {"X-Content-SHA256": digest}, path="d/f.bin", mode="755")
    assert (sent.status, sent.json["bytes"], sent.json["sha256"]) == (201, size, digest)
    assert rest("GET", path, path="d/f.bin").body == data
    assert rest.out(id, "stat -c %a d/f.bin; ls -A d") == "755\nf.bin\n"


@pytest.mark.parametrize("size", [10, 9 << 20])
def test_an_upload_that_came_otherwise_is_not_there(rest: Rest, size: int) -> None:
    id, wrong = rest.make(), {"X-Content-SHA256": "0" * 64}
    sent = rest("PUT", f"/v1/sandboxes/{id}/files", b"x" * size, wrong, path="f")
    assert (sent.status, sent.code) == (422, "client.hash_mismatch")
    assert rest.out(id, "ls -A") == ""


def test_a_full_disk_is_the_workloads(rest: Rest) -> None:
    id = rest.make(limits={"disk_mb": 8})
    sent = rest("PUT", f"/v1/sandboxes/{id}/files", b"x" * (16 << 20), path="f")
    assert (sent.status, sent.code, sent.json["attributable"]) == (422, "workload.disk_quota", "model")
    assert rest.out(id, "ls -A") == ""


def test_names_that_are_no_text_are_listed(rest: Rest) -> None:
    id = rest.make()
    rest.out(id, r"touch a $'\xff'; mkdir d")
    found = rest("GET", f"/v1/sandboxes/{id}/names").json
    assert found["names"] == []
    assert found["raw"] == "YQBkLwD/"
    assert rest("GET", f"/v1/sandboxes/{id}/names", path="d").json["names"] == []


def test_diff_and_patch(rest: Rest) -> None:
    id, other = rest.make(), rest.make()
    rest.out(id, "echo new >f")
    diff = rest("GET", f"/v1/sandboxes/{id}/diff").body
    assert b"+new" in diff
    assert rest("POST", f"/v1/sandboxes/{other}/patch", diff).json == {"applied": True}
    assert rest.out(other, "cat f") == "new\n"
    again = rest("POST", f"/v1/sandboxes/{other}/patch", b"--- a/q\n+++ b/q\n@@ -1 +1 @@\n-a\n+b\n")
    assert (again.status, again.code) == (422, "patch_failed")


def test_a_tree_is_uploaded_once_and_shared(rest: Rest) -> None:
    data = tar(
        (entry("src", tarfile.DIRTYPE), b""), (entry("src/a.py"), b"x\n"), (entry("l", tarfile.SYMTYPE, "/etc"), b"")
    )
    hash = hashlib.sha256(data).hexdigest()
    assert rest("GET", f"/v1/trees/{hash}").status == 404
    assert put(rest, data).status == 201
    ids = [rest.make(tree=f"sha256:{hash}", binds=[{"source": f"sha256:{hash}", "target": "/opt/t"}]) for _ in range(2)]
    rest.out(ids[0], "echo y >src/a.py")
    assert rest.out(ids[1], "cat src/a.py /opt/t/src/a.py; readlink l") == "x\nx\n/etc\n"


def test_a_tree_is_of_its_tenant(rest: Rest) -> None:
    data = tar((entry("secret"), b"1"))
    put(rest, data)
    other = rest.keyed(tenant="stranger")
    hash = hashlib.sha256(data).hexdigest()
    assert other("GET", f"/v1/trees/{hash}").status == 404
    assert other("POST", "/v1/sandboxes", {"tree": f"sha256:{hash}"}).code == "client.no_such_tree"


HOSTILE = {
    "absolute": tar((entry("/tmp/orchard-escape"), b"x")),
    "upwards": tar((entry("../orchard-escape"), b"x")),
    "through a link": tar((entry("l", tarfile.SYMTYPE, "/tmp"), b""), (entry("l/orchard-escape"), b"x")),
    "link through a link": tar(
        (entry("l", tarfile.SYMTYPE, "/tmp"), b""), (entry("l/orchard-escape", tarfile.SYMTYPE, "x"), b"")
    ),
    "link upwards": tar((entry("../orchard-escape", tarfile.SYMTYPE, "x"), b"")),
    "hard link outside": tar((entry("h", tarfile.LNKTYPE, "/etc/passwd"), b"")),
    "device": tar((entry("d", tarfile.CHRTYPE), b"")),
    "pipe": tar((entry("p", tarfile.FIFOTYPE), b"")),
    "no tar": b"no tar at all",
    "cut": tar((entry("a"), b"x" * 5000))[:2000],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tar_leads_nowhere(rest: Rest, name: str) -> None:
    from pathlib import Path

    before = sorted(rest.state.rglob("*"))
    reply = put(rest, HOSTILE[name])
    if reply.status == 201:  # the standard filter makes an absolute name a relative one
        assert name == "absolute"
    else:
        assert reply.code == "client.bad_tar"
        assert sorted(rest.state.rglob("*")) == before
    assert not Path("/tmp/orchard-escape").exists()
    assert not list(rest.state.rglob("../orchard-escape"))


def test_a_tree_under_a_wrong_hash_is_refused(rest: Rest) -> None:
    reply = put(rest, tar((entry("a"), b"x")), "0" * 64)
    assert reply.code == "client.hash_mismatch"


def test_a_host_path_needs_proof(rest: Rest) -> None:
    refused = rest("POST", "/v1/sandboxes", {"tree": "host:/etc"})
    assert (refused.status, refused.code) == (403, "client.forbidden")
    forged = rest("POST", "/v1/sandboxes", {"tree": "host:/etc"}, {"X-Orchard-Host-Proof": "0" * 64})
    assert forged.code == "client.forbidden"
