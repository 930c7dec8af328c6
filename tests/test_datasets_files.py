"""The paper's datasets by name: prepared files, public files in small, and clear messages if something is missing."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks import public_files
from benchmarks.paper_data import PAPER_DATASETS, load_paper
from benchmarks.public_files import PublicFile, download, read_cancer, read_faces, read_pgm, read_rcv

SHARED = Path(__file__).parents[2] / "shared" / "datasets" / "paper"
SHAPES = {
    "moon": (1000, 2, 2),
    "spiral1": (3000, 2, 3),
    "spiral2": (30000, 2, 3),
    "cancer": (683, 9, 2),
    "wine": (178, 13, 3),
    "rcv": (10000, 5, 4),
    "face": (624, 27, 20),
}


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("KNET_DATA", raising=False)


@pytest.mark.parametrize("name", ["moon", "spiral1", "spiral2", "wine"])
def test_what_needs_no_file_loads_without_a_folder(name):
    X, y = load_paper(name)
    assert (*X.shape, len(np.unique(y))) == SHAPES[name]
    assert y.min() == 0


@pytest.mark.shared_data
@pytest.mark.parametrize("name", PAPER_DATASETS)
def test_the_papers_own_files_have_the_papers_shapes(name):
    if not SHARED.is_dir():
        pytest.skip("the paper's files are not in ../shared/datasets/paper")
    X, y = load_paper(name, SHARED)
    assert (*X.shape, len(np.unique(y))) == SHAPES[name]
    assert np.array_equal(np.unique(y), np.arange(y.max() + 1))


@pytest.mark.parametrize("through", ["argument", "environment"])
def test_prepared_files_come_first(tmp_path, monkeypatch, through):
    (tmp_path / "wine.csv").write_text("1,2\n3,4\n5,6\n")
    (tmp_path / "wine_label.csv").write_text("7\n9\n7\n")
    if through == "environment":
        monkeypatch.setenv("KNET_DATA", str(tmp_path))
    X, y = load_paper("wine", tmp_path if through == "argument" else None)
    assert X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert y.tolist() == [0, 1, 0]


def test_prepared_files_have_to_fit_together(tmp_path):
    (tmp_path / "wine.csv").write_text("1,2\n3,4\n")
    with pytest.raises(FileNotFoundError, match=r"wine\.csv is in .* but wine_label\.csv is not"):
        load_paper("wine", tmp_path)
    (tmp_path / "wine_label.csv").write_text("1\n2\n3\n")
    with pytest.raises(ValueError, match=r"wine\.csv has 2 rows, wine_label\.csv has 3"):
        load_paper("wine", tmp_path)


def test_an_unknown_name_or_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="no dataset 'iris'; it has moon, spiral1"):
        load_paper("iris")
    with pytest.raises(FileNotFoundError, match=r"data folder .*nowhere.* does not exist"):
        load_paper("moon", tmp_path / "nowhere")


@pytest.mark.parametrize("name", public_files.PUBLIC_FILES)
def test_missing_public_files_are_named_with_where_to_get_them(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"needs a data folder .* or set KNET_DATA"):
        load_paper(name)
    with pytest.raises(FileNotFoundError) as caught:
        load_paper(name, tmp_path)
    for file in public_files.PUBLIC_FILES[name]:
        assert file.name in str(caught.value)
        assert file.url in str(caught.value)
    assert f"python -m benchmarks.download FOLDER {name}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_cancer_drops_rows_with_gaps_and_the_id(tmp_path):
    path = tmp_path / "breast-cancer-wisconsin.data"
    path.write_text("1000025,5,1,1,1,2,1,3,1,1,2\n1057013,8,4,5,1,2,?,7,3,1,4\n1017122,8,10,10,8,7,10,9,7,1,4\n")
    X, y = load_paper("cancer", tmp_path)
    assert X.tolist() == [[5, 1, 1, 1, 2, 1, 3, 1, 1], [8, 10, 10, 8, 7, 10, 9, 7, 1]]
    assert y.tolist() == [0, 1]


@pytest.mark.parametrize("line", ["1,2,3", "1,5,1,1,1,2,1,3,1,1,3", "1,5,1,1,x,2,1,3,1,1,2"])
def test_a_malformed_cancer_line_is_named(tmp_path, line):
    path = tmp_path / "data"
    path.write_text(f"1000025,5,1,1,1,2,1,3,1,1,2\n{line}\n")
    with pytest.raises(ValueError, match="data, line 2: expected 11 whole numbers"):
        read_cancer(path)


def pgm(pixels, width, kind="P5"):
    head = f"{kind}\n# made by a camera\n{width} {len(pixels) // width}\n255\n".encode()
    return head + (bytes(pixels) if kind == "P5" else " ".join(map(str, pixels)).encode())


@pytest.mark.parametrize("kind", ["P2", "P5"])
def test_pgm_images_are_read_in_both_forms(kind):
    assert read_pgm(pgm([0, 10, 32, 255, 4, 35], 3, kind)).tolist() == [0, 10, 32, 255, 4, 35]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"P6\n1 1\n255\nabc", "face.pgm is not a PGM image"),
        (b"P5\n1 1\n65535\nab", "face.pgm is not a PGM image with one byte"),
        (b"", "face.pgm is not a PGM image"),
        (b"P5\n3 2\n255\nabc", "face.pgm should have 6 pixels and has 3"),
    ],
)
def test_a_damaged_image_is_named(content, message):
    with pytest.raises(ValueError, match=message):
        read_pgm(content, "face.pgm")


def face_archive(path, images):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in images.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_faces_are_reduced_to_scaled_components_without_damaged_images(tmp_path, rng):
    images = {}
    for person, level in (("bpm", 60), ("an2i", 180)):
        for pose in range(6):
            pixels = np.clip(rng.normal(level, 20, 30), 0, 255).astype(int).tolist()
            images[f"faces_4/{person}/{person}_left_{pose}_open_4.pgm"] = pgm(pixels, 6)
    images["faces_4/an2i/an2i_right_sad_open_4.bad"] = b"damaged"
    images["faces_4/README"] = b"words"
    face_archive(tmp_path / "faces_4.tar.gz", images)
    X, y = read_faces(tmp_path / "faces_4.tar.gz", n_components=3)
    assert X.shape == (12, 3)
    assert y.tolist() == [0] * 6 + [1] * 6  # people in the order of their names
    np.testing.assert_allclose(X.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(0), 1)
    assert abs(X[y == 0, 0].mean() - X[y == 1, 0].mean()) > 1.5  # the first component is the brightness


def test_an_archive_without_faces_is_named(tmp_path):
    face_archive(tmp_path / "faces_4.tar.gz", {"faces_4/README": b"words"})
    with pytest.raises(ValueError, match=r"faces_4\.tar\.gz has no images"):
        load_paper("face", tmp_path)


TOPICS = {"CCAT": ["share", "profit", "compani"], "GCAT": ["elect", "war", "minist"]}


def rcv_files(folder, rng, n_articles=60, packed=True):
    """Write small files in the form of RCV1-v2: tokens, and topics with article 1000 in two roots and 1001 in none."""
    tokens, topics = (
        [".I 1000\n.W\nshare elect\n", ".I 1001\n.W\nnobodi\n"],
        ["CCAT 1000 1", "GCAT 1000 1", "C15 1001 1"],
    )
    for number in range(n_articles):
        root = list(TOPICS)[number % 2]
        words = rng.choice(TOPICS[root] * 5 + ["the", "said"], 40)
        tokens.append(f".I {number}\n.W\n{' '.join(words[:25])}\n{' '.join(words[25:])}\n")
        topics += [f"{root} {number} 1", f"C15 {number} 1"]
    for name, text in (
        ("lyrl2004_tokens_train.dat.gz", "\n".join(tokens)),
        ("rcv1-v2.topics.qrels.gz", "\n".join(topics)),
    ):
        (folder / name).write_bytes(gzip.compress(text.encode()) if packed else text.encode())


@pytest.mark.parametrize("packed", [True, False])
def test_rcv_takes_articles_of_one_root_topic(tmp_path, rng, packed):
    rcv_files(tmp_path, rng, packed=packed)
    X, y = load_paper("rcv", tmp_path)
    assert X.shape == (60, 5)
    assert y.tolist() == [0, 1] * 30
    np.testing.assert_allclose(X.std(0), 1)
    assert abs(X[y == 0, 0].mean() - X[y == 1, 0].mean()) > 1.5  # the first component tells the topics apart


def test_rcv_keeps_the_most_frequent_words_and_draws_by_the_seed(tmp_path, rng):
    rcv_files(tmp_path, rng)
    paths = tmp_path / "lyrl2004_tokens_train.dat.gz", tmp_path / "rcv1-v2.topics.qrels.gz"
    first, again, other = (read_rcv(*paths, n_samples=40, random_state=seed)[1] for seed in (0, 0, 1))
    assert len(first) == 40
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert read_rcv(*paths, n_words=2)[0].shape[1] == 2


def test_rcv_without_usable_articles_is_named(tmp_path, rng):
    rcv_files(tmp_path, rng, n_articles=0)
    with pytest.raises(ValueError, match=r"No article of .* has exactly one of the topics CCAT"):
        load_paper("rcv", tmp_path)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A function that publishes a content as the file of the cancer data, and returns its address."""

    def publish(content, name="file", check=lambda path: None):
        source = tmp_path / "source"
        source.write_bytes(content)
        monkeypatch.setitem(public_files.PUBLIC_FILES, "cancer", (PublicFile(name, source.as_uri(), check),))
        return source

    return publish


def test_download_fetches_once_and_leaves_nothing_unfinished(tmp_path, published, caplog):
    folder = tmp_path / "new" / "folder"
    published(b"content")
    with caplog.at_level("INFO"):
        assert download("cancer", folder) == [folder / "file"]
    assert "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" in caplog.text
    published(b"other")
    download("cancer", folder)
    assert (folder / "file").read_text() == "content"
    published(b"other", "more").unlink()
    with pytest.raises(OSError, match="source could not be downloaded"):
        download("cancer", folder)
    assert [path.name for path in folder.iterdir()] == ["file"]


CANCER_ROW = b"1000025,5,1,1,1,2,1,3,1,1,2\n"


@pytest.mark.parametrize("content", [b"<html>moved</html>", CANCER_ROW * 5, b"", b"\xff\x00" * 40])
def test_a_download_that_is_not_the_known_file_is_not_kept(tmp_path, published, content):
    published(content, check=public_files.check_cancer)
    with pytest.raises(ValueError, match="not the expected file, so it was not kept"):
        download("cancer", tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def test_the_known_cancer_file_is_kept(tmp_path, published):
    lines = [CANCER_ROW] * 444 + [CANCER_ROW[:-2] + b"4\n"] * 239 + [b"1057013,8,4,5,1,2,?,7,3,1,4\n"] * 16
    published(b"".join(lines), check=public_files.check_cancer)
    assert download("cancer", tmp_path / "folder")[0].exists()


@pytest.mark.parametrize("check", ["check_faces", "check_rcv_tokens", "check_rcv_topics"])
@pytest.mark.parametrize("content", [b"", b"nothing", b"\x1f\x8b\x08\x00cut", b".I 1\n.W\na b\n"])
def test_wrong_archives_are_not_kept(tmp_path, published, check, content):
    published(content, check=getattr(public_files, check))
    with pytest.raises(ValueError, match="not the expected file"):
        download("cancer", tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_download_that_stops_early_is_not_kept(tmp_path, published, monkeypatch):
    published(b"content")
    genuine = public_files.urllib.request.urlopen

    def cut(url, timeout):
        answer = genuine(url, timeout=timeout)
        answer.headers.replace_header("Content-Length", "700")
        return answer

    monkeypatch.setattr(public_files.urllib.request, "urlopen", cut)
    with pytest.raises(OSError, match="ended after 7 of 700 bytes"):
        download("cancer", tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def test_what_cannot_be_downloaded_is_named(tmp_path):
    with pytest.raises(ValueError, match="nothing to download for 'moon'; there is for cancer, face, rcv"):
        download("moon", tmp_path)
