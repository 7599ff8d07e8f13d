"""Choices of data, a file for each kind."""

from flyrun.tables.dataset_options import Dataset, Rows
from flyrun.tables.options import ROLES, Table, listed, names_of

# isort: split
from flyrun.experiments.config.dataset import document_data, graph_data, row_data

__all__ = [
    "ROLES",
    "Dataset",
    "Rows",
    "Table",
    "document_data",
    "graph_data",
    "listed",
    "names_of",
    "row_data",
]
