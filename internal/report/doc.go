// Package report makes a report of the results files of package bench: a web page,
// tables, and predictions in the format of tsml. No value is recomputed; a value missing
// in a file is shown as missing, never as zero.
//
// # Input
//
// Results files of offline paper (one protocol each), compare and memory, in any number
// and order. Files of a protocol must have the same seed and arithmetic, a model on a
// data set may be in only one of them, and a data set's name must mean the same data in
// all files: otherwise Load refuses. Unfinished models are listed and left out.
//
// # Files of a report
//
//	report.html    one page without scripts and without external links
//	table.csv      a line per data set and model; empty for missing values
//	results.jsonl  an object per data set and model: settings, data, cell, verdict, draws
//	tsml/<Classifier>/Predictions/<Dataset>/testResample<k>.csv
//
// The bytes depend only on the input files, the given figures and Options, not on the
// order of the files.
//
// The tsml files have the format of tsml-eval (ClassifierResults): k is the draw, on the
// archive's split; true and predicted classes count as in paper.Data.Truth; a test series
// of a class without training series has an additional class. Readouts give scores and no
// probabilities: the predicted class has probability 1. Times are milliseconds, training
// and test together. Bytes of names other than letters, digits, '-', '_' and '.' are
// written %XX.
//
// # Comparison of several methods
//
// Means, ranks and critical differences are computed by package compare, over the common
// data sets of a comparison.
//
// # Files
//
//   - load.go: loads results files and joins them
//   - report.go: lists and summarizes the files of a report
//   - page.go: writes the page from page.html, style.css and the paper's figures
//   - view.go: formats an entry for the page
//   - compare.go: compares models and published classifiers
//   - diagram.go: draws critical-difference diagrams
//   - table.go: writes the table as CSV and JSON lines
//   - tsml.go: writes result files of tsml
package report
