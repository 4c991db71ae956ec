// Package report makes one report of the results files of package bench: a web
// page, tables, and predictions as tsml has them. Nothing is computed again;
// a value that a file does not have is shown as missing, never as zero.
//
// # Input
//
// Results files of offline paper (one protocol each), compare and memory,
// in any number and order. Files of one protocol must agree in seed and
// arithmetic, a model on a data set may be in one of them only, and a data set's
// name must mean the same data everywhere: otherwise Load refuses. Models that a
// run has not finished are listed and left out.
//
// # Files of a report
//
//	report.html    one page without scripts and without links to anywhere
//	table.csv      a line per data set and model; empty where there is nothing
//	results.jsonl  an object per data set and model: settings, data, cell, verdict, draws
//	tsml/<Classifier>/Predictions/<Dataset>/testResample<k>.csv
//
// The bytes depend on the input files, the figures given and Options alone, not
// on the order of the files.
//
// The tsml files are those of tsml-eval (ClassifierResults): k is the draw, on
// the archive's own split; true and predicted classes count as paper.Data.Truth;
// a test series of a class without training series is of one class more.
// Readouts give scores and no probabilities: the predicted class is there
// with 1. Times are milliseconds, training and test together. Bytes of names
// other than letters, digits, '-', '_' and '.' are written %XX.
//
// # Comparison of several methods
//
// Means, ranks and critical differences are package compare's, over the data sets
// that all methods of a comparison have.
//
// # Files
//
//   - load.go: loads results files and joins them
//   - report.go: lists the files of a report; sums it up
//   - page.go: writes the page from page.html and style.css
//   - view.go: formats an entry for the page
//   - compare.go: compares models and published classifiers
//   - diagram.go: draws critical-difference diagrams
//   - figures.go: reads the pictures of the paper's figures
//   - table.go: writes the table as CSV and JSON lines
//   - tsml.go: writes result files of tsml
package report
