// Package compare compares classifiers on the data sets of the UCR and UEA archives:
// published figures, means, ranks, critical differences. Its inputs are accuracies by
// data set name, of any origin.
//
// # Published figures (published.json)
//
// 1NN-DTW, ROCKET, MiniROCKET, MultiROCKET, MultiROCKET with Hydra, QUANT and HIVE-COTE
// 2, on the archive's split. Each block of the file has the source of its figures: files,
// repository, commit, date, resample. The figures are rounded to five digits. A figure
// that was not found is left out, and its place in tables is empty: MiniROCKET and
// MultiROCKET on data sets of several channels.
//
// # Ranks (ranks.go)
//
// Ranks, with averages for ties, over the data sets of all methods; Friedman's test with
// its correction for ties; and the critical difference of Nemenyi's test at .05, as
// recommended by J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data
// Sets", JMLR 7 (2006), 1-30:
//
//	CD = q(.05, k, inf) / sqrt 2 * sqrt(k (k+1) / 6N)
//
// for k methods on N data sets, where q is the quantile of the studentized range.
//
// # Files
//
//   - published.go: holds published accuracies and their sources
//   - ranks.go: computes ranks, the Friedman test and critical differences
//   - ranking.go: ranks methods over data sets
//   - table.go: ranks banks next to published classifiers
package compare
