// Package compare holds classifiers beside each other on the data sets of the UCR
// and UEA archives: published figures, means, ranks, critical differences. It knows
// accuracies by the name of a data set, however they were made.
//
// # Published figures (published.json)
//
// 1NN-DTW, ROCKET, MiniROCKET, MultiROCKET, MultiROCKET with Hydra, QUANT and
// HIVE-COTE 2, on the split that the archive gives. Each block of the file says where
// its figures were read: files, repository, commit, date, resample. They are figures
// alone, rounded to five digits. A figure that was not found is left out, and tables
// show nothing there: MiniROCKET and MultiROCKET on data sets of several channels.
//
// # Ranks (ranks.go)
//
// Ranks, averages of those of equals, over the data sets that all methods have;
// Friedman's test with its correction for ties; and the critical difference of
// Nemenyi's test at .05, as J. Demšar, "Statistical Comparisons of Classifiers
// over Multiple Data Sets", JMLR 7 (2006), 1-30, recommends them:
//
//	CD = q(.05, k, inf) / sqrt 2 * sqrt(k (k+1) / 6N)
//
// for k methods on N data sets, where q is the quantile of the studentised range.
//
// # Files
//
//   - published.go: holds published accuracies and their sources
//   - ranks.go: computes ranks, the Friedman test and critical differences
//   - ranking.go: ranks methods over data sets
//   - table.go: ranks banks next to published classifiers
package compare
