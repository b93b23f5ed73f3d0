"""Tables: a pandas frame where pandas is there, else a dict of columns."""
import csv
import io


def frame(columns):
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


def from_records(records):
    names = list(dict.fromkeys(name for record in records for name in record))
    return frame({name: [record.get(name) for record in records] for name in names})


def from_csv(text, texts=(), keep=lambda row: True):
    """The columns named in `texts` stay texts whatever they hold; `keep` is asked about each row, a dict."""
    reader = csv.DictReader(io.StringIO(text))
    rows = [row for row in reader if keep(row)]
    columns = {name: [row[name] for row in rows] for name in reader.fieldnames or []}
    return frame({name: cells if name in texts else _values(cells) for name, cells in columns.items()})


def _values(texts):
    """Of one kind: truth values, whole numbers, numbers (nan where there is none) or texts."""
    if texts and all(text in ("true", "false") for text in texts):
        return [text == "true" for text in texts]
    for kind, empty in ((int, False), (float, True)):
        try:
            return [float("nan") if empty and text == "" else kind(text) for text in texts]
        except ValueError:
            continue
    return texts
