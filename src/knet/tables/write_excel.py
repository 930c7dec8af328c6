"""A table as an Excel workbook of one sheet: numbers are numbers, everything else is text and never a formula.

The format is a zip file of XML. This part of it needs no library.
"""

import math
import re
import zipfile
from collections.abc import Iterable
from typing import IO
from xml.sax.saxutils import escape

MAX_ROWS = 2**20 - 1  # of a sheet, below the line with the names
MAX_TEXT = 32_767  # characters of a cell
MAX_EXACT = 2**53  # Excel stores numbers as doubles: longer ones, such as account numbers, are written as text
# Characters that XML cannot hold or changes, and what Excel reads as one of them: each is written as _xNNNN_.
NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
PARTS = {
    "[Content_Types].xml": (
        f'<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPE}.worksheet+xml"/></Types>'
    ),
    "_rels/.rels": (
        f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    ),
    "xl/workbook.xml": (
        f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}">'
        '<sheets><sheet name="knet" sheetId="1" r:id="rId1"/></sheets></workbook>'
    ),
}


def write_sheet(handle: IO[bytes], rows: Iterable[Iterable[object]]) -> None:
    """Write rows, the first of which has the names of the columns, to a workbook."""
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in PARTS.items():
            archive.writestr(name, HEAD + text)
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            sheet.write(f'{HEAD}<worksheet xmlns="{MAIN}"><sheetData>'.encode())
            for row in rows:
                sheet.write(f"<row>{''.join(map(_cell, row))}</row>".encode())
            sheet.write(b"</sheetData></worksheet>")


def _cell(value: object) -> str:
    """Return a cell; missing values and NaN are empty ones."""
    if value is None or value != value:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float) and abs(value) <= MAX_EXACT and math.isfinite(value):
        return f"<c><v>{value!r}</v></c>"
    text = str(value)
    if len(text) > MAX_TEXT:
        raise ValueError(f"A cell of a sheet can hold {MAX_TEXT:,} characters, and there is a text of {len(text):,}.")
    text = escape(NOT_IN_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", text))
    return f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
