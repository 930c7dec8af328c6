"""Every number of the paper's tables, as printed: "Deep Kernel Learning for Clustering", Wu, Khan, Ioannidis, Dy.

NMI in percent, seconds for times. `None` is a cell that the paper leaves empty or calls a failure.
"""

DATASETS = ("moon", "spiral1", "cancer", "wine", "rcv", "face")

# Table 1: rows, clusters, columns, kind, sigma.
SUMMARY = {
    "moon": (1000, 2, 2, "Geometric Shape", 0.1701),
    "spiral1": (3000, 3, 2, "Geometric Shape", 0.1708),
    "spiral2": (30000, 3, 2, "Geometric Shape", 0.1811),
    "cancer": (683, 2, 9, "Medical", 3.3194),
    "wine": (178, 3, 13, "Classification", 4.939),
    "rcv": (10000, 4, 5, "Text", 2.364),
    "face": (624, 20, 27, "Image", 6.883),
}

# Table 2: NMI and its deviation over ten runs, trained on all rows.
FULL_ALGORITHMS = ("aec", "dec", "imsat", "sn", "sc", "kmeans", "knet-eig", "knet-sma")
FULL_NMI: dict[str, tuple[tuple[float, float], ...]] = {
    "moon": ((56.2, 0), (42.2, 0), (51.3, 20.3), (100, 0), (72.0, 0), (66.1, 0), (100, 0), (100, 0)),
    "spiral1": ((28.3, 0), (32.0, 0.01), (59.6, 7.5), (100, 0), (100, 0), (42.0, 0), (100, 0), (100, 0)),
    "cancer": ((79.9, 0.2), (79.2, 0), (74.6, 2.2), (82.9, 0), (69.8, 0), (73.0, 0), (84.2, 0.4), (82.5, 0.1)),
    "wine": ((54.6, 0), (80.6, 0), (72.3, 11.4), (79.7, 0.2), (88.0, 0), (42.8, 0), (91.0, 0.8), (90.0, 0.7)),
    "rcv": ((39.3, 0), (51.3, 0), (39.0, 5.5), (43.5, 0.2), (46, 0), (56.0, 0), (46.3, 0.4), (46.1, 0.2)),
    "face": ((76.8, 0), (75.8, 1.6), (83.8, 3.5), (75.6, 0.1), (66.0, 0.4), (91.8, 0), (93.0, 0.3), (92.6, 0.5)),
}

# Table 3: seconds of preparation and of the run, trained on all rows. KNet shares one preparation.
TIME_COLUMNS = (
    ("aec", "prep"),
    ("aec", "run"),
    ("dec", "prep"),
    ("dec", "run"),
    ("imsat", "prep"),
    ("imsat", "run"),
    ("sn", "run"),
    ("sc", "run"),
    ("kmeans", "run"),
    ("knet-eig", "prep"),
    ("knet-eig", "run"),
    ("knet-sma", "run"),
)
FULL_TIME: dict[str, tuple[float, ...]] = {
    "moon": (18.23, 28.04, 331.80, 3.52, 1.20, 34.34, 324.00, 0.34, 0.04, 129.00, 28.90, 18.40),
    "spiral1": (2574.00, 7920.00, 343.80, 121.20, 53.06, 309.00, 444.00, 4.20, 0.12, 300.00, 42.00, 19.00),
    "cancer": (99.00, 280.20, 342.00, 38.73, 1.10, 144.00, 234.00, 0.18, 0.03, 150.00, 19.30, 10.30),
    "wine": (33.81, 41.69, 345.00, 38.02, 1.10, 33.32, 330.00, 0.03, 0.06, 462.00, 7.20, 3.40),
    "rcv": (141.60, 2536.80, 381.00, 784.20, 10.39, 73.20, 438.00, 83.40, 0.35, 1080.00, 1830.00, 1116.00),
    "face": (27.50, 189.00, 344.40, 254.10, 1.20, 121.80, 170.90, 0.26, 0.15, 1320.00, 20.90, 3.30),
}

# Table 4: share of the rows trained on, in percent, and NMI of all rows.
SUBSET_PERCENT = {"moon": 25, "spiral1": 10, "cancer": 30, "wine": 75, "rcv": 6, "face": 35}
OOS_ALGORITHMS = ("aec", "dec", "imsat", "sn", "kmeans", "knet-eig", "knet-sma")
OOS_NMI: dict[str, tuple[float | None, ...]] = {
    "moon": (51.1, 45.6, 45.5, 100.0, 21.5, 100.0, 100.0),
    "spiral1": (32.2, 49.5, 48.7, 100.0, 56.7, 100.0, 100.0),
    "cancer": (76.4, 76.9, 74.9, 82.2, None, 84.0, 83.6),
    "wine": (49.1, 81.5, 69.4, 77.2, 25.0, 91.1, 89.3),
    "rcv": (26.8, 43.2, 35.2, 41.3, 52.5, 45.2, 43.1),
    "face": (52.5, 67.1, 77.8, 75.5, 87.2, 92.7, 91.1),
}

# Table 5: seconds, trained on the subset. Spectral clustering cannot label new rows and has no column.
OOS_TIME_COLUMNS = tuple(column for column in TIME_COLUMNS if column[0] != "sc")
OOS_TIME: dict[str, tuple[float, ...]] = {
    "moon": (15.01, 22.30, 201.00, 2.95, 1.10, 27.63, 140.10, 0.03, 48.00, 2.30, 1.10),
    "spiral1": (192.00, 498.60, 250.20, 99.00, 47.05, 229.80, 223.30, 0.07, 82.00, 3.10, 1.40),
    "cancer": (55.30, 75.00, 306.00, 30.01, 1.65, 100.20, 38.90, 0.03, 16.00, 4.00, 1.80),
    "wine": (25.30, 35.31, 279.00, 32.31, 2.40, 25.60, 20.40, 0.03, 74.00, 1.30, 0.09),
    "rcv": (63.00, 316.20, 339.00, 672.60, 3.21, 56.00, 40.67, 0.03, 72.00, 5.50, 2.10),
    "face": (15.10, 171.60, 315.00, 233.40, 1.10, 93.60, 35.09, 0.10, 76.80, 2.20, 0.96),
}

# Tables 6 and 7: lambda, then HSIC, error of the autoencoder and NMI (a fraction) for EIG and for SMA.
LAMBDA: dict[str, dict[float, tuple[tuple[float, float, float], tuple[float, float, float]]]] = {
    "wine": {
        1.0: ((98.11, 21.58, 0.90), (92.01, 8.98, 0.89)),
        0.1: ((98.80, 72.95, 0.88), (94.21, 72.62, 0.87)),
        0.01: ((112.32, 101.45, 0.87), (101.11, 88.39, 0.89)),
        0.005: ((109.01, 105.37, 0.91), (108.22, 107.22, 0.90)),
        1e-4: ((113.18, 124.56, 0.91), (110.18, 126.63, 0.91)),
        0.0: ((110.89, 127.23, 0.92), (109.36, 127.11, 0.91)),
    },
    "spiral1": {
        1.0: ((2.989, 0.001, 0.446), (2.989, 0, 0.421)),
        0.1: ((2.989, 0.0001, 0.412), (2.989, 0, 0.414)),
        0.01: ((2.989, 0.0001, 0.421), (2.989, 0, 0.418)),
        1e-3: ((2.989, 0.001, 0.434), (2.989, 0, 0.419)),
        1e-4: ((2.988, 0.001, 0.421), (2.988, 0, 0.418)),
        1e-5: ((2.965, 0.099, 0.557), (2.979, 0.033, 0.558)),
        1e-6: ((1.982, 0.652, 0.644), (2.33, 0.583, 0.56)),
        1e-7: ((2.124, 0.669, 0.969), (2.037, 0.66, 0.824)),
        1e-8: ((2.249, 0.69, 1), (2.368, 0.67, 1)),
        0.0: ((2.278, 0.715, 1), (2.121, 0.718, 1)),
    },
}
