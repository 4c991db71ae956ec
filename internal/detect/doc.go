// Package detect fits detectors (package novelty). A detector measures the distance of a
// feature vector from the training part, and how often a sequence like the training's is as
// distant.
//
// The features f of n training sequences are centered and scaled,
// z_j = (f_j - mean_j) * scale_j. V holds their leading principal directions, at most
// Dimensions and at most n-1 directions. The part of a vector outside V is its residual
//
//	r = z - V V' z
//
// The squared length of r is the reconstruction error of a principal component analysis (J. E.
// Jackson, G. S. Mudholkar: Control procedures for residuals associated with principal
// component analysis, Technometrics 21 (1979) 341-349: the statistic Q),
//
//	score = (|z|^2 - |V' z|^2) / unit
//
// The unit is the median of the squared residuals of left-out training sequences: the usual
// score is 1. V comes from the n x n kernel Z Z' and not from the features' covariance.
// novelty.Detector.Score defines the order of the operations, so that other programs get the
// same bits. Two alternatives were measured. Estimating a residual from 32 random projections,
// which an engine could compute like a readout, is much worse (docs/results.md). Distances
// within classes are worse, too: they find more sequences between two classes, and fewer of
// the rest.
//
// # By place
//
// Classes differ in their residuals: the usual residual of a loud class is far too large for a
// quiet class. With several classes, Fit therefore divides a residual by the usual residual at
// its place within the subspace (novelty.Usual): a ridge regression of the logarithm of
// left-out residuals on the products with the Places leading directions and on their squares
// (R. J. Carroll, D. Ruppert: Transformation and Weighting in Regression, 1988, chapter 3:
// regression of a variance). The products come from the directions of the left-out part's
// fold, turned onto the directions of all sequences (placed). The penalty is chosen by leaving
// out folds. The predicted residual is limited to the range of the middle four fifths of the
// training part, so that a place without training sequences explains nothing. If the
// regression predicts no better than a constant, nothing is divided. With one class, division
// was measured to be slightly worse and is not used.
//
// # Between classes
//
// A fault that resembles a mixture of two known classes has a small residual. With several
// classes of at least 80 sequences each, Fit makes spliced vectors: the features of a sequence
// that resembles one sequence for a share of the time, from .35 to .65, and a sequence of
// another class for the rest (Splice). If the features include a deviation and a maximum, a
// spliced vector does not lie on the straight line between the two sequences. A ridge
// regression separates spliced from whole vectors, of equal number. With two or three classes
// each pair has a regression, trained on spliced vectors of the pair; with more classes a
// single regression uses all. The directions, of unit length, come before the principal
// directions and replace as many of these. The spliced directions are orthogonal neither to
// each other nor to the principal directions, and subtract nothing from the residual
// (novelty.Usual.Between). With t_k the product with direction k, m_k and v_k mean and
// variance of t_k of left-out sequences, and d the deviation of the logarithm of their
// residuals from the usual value,
//
//	.35 d sum_k (t_k - m_k)^2 / v_k
//
// is added to the logarithm of a residual (as a part of novelty.Usual, up to 22.4 d): a vector
// unlike whole sequences along a direction is novel, on the spliced side and on the opposite
// side. Learning the normal state from artificial anomalies is known as outlier exposure (D.
// Hendrycks, M. Mazeika, T. Dietterich: Deep anomaly detection with outlier exposure, ICLR
// 2019).
//
// # Running means
//
// Small changes of slow levels, and of the correlation between channels, are lost among the
// features. With Statistics, the running means u of a sequence's channels add
//
//	c (u - m)' S^-1 (u - m)
//
// to the residual, with mean m and covariance S of the training part (H. Hotelling: Multivariate
// quality control, 1947: the statistic T2); correlations are reduced by a tenth, so that S is
// regular. c gives the means a third of the limit of the level. These choices were made on
// development data: half of the files of SKAB, faults of the Tennessee Eastman training runs,
// seven files of NAB. The maximum, the product and the means without the residual were worse, as were
// means over more than a window, differences of means, and covariances that include drift.
//
// # The p-value
//
// The training sequences are divided into Folds parts. For each part, mean, scale and V are
// recomputed from the other parts; the scores of the part are divided by the usual residual of
// a regression without the part. A scored sequence therefore had no influence on its scorer,
// like a new sequence. With n scores
//
//	p = (1 + number of left-out scores that are not smaller) / (n + 1)
//
// is at most alpha in a share alpha of sequences like the training's, for every alpha (V.
// Vovk: Cross-conformal predictors, Annals of Mathematics and Artificial Intelligence 74
// (2015) 9-28: to a factor of two in the worst case, and closely in practice; the last V comes
// from all sequences, more than in each part, so that p is rather too large). p is never below
// 1/(n+1): a false-alarm rate of .001 needs 999 training sequences. If sequences depend on
// each other, such as windows of one stream, groups are left out together, and the share holds
// for new groups.
//
// # Inputs
//
// Features are nearly linear in the input of a network: level, spread and pace of each channel
// can be read from the features, and need no stored state. For each channel and each of three
// statistics of the n sequences (Statistics), centered and divided by its deviation, ridge
// regression on z has the weights
//
//	w = Z' (Z Z' + a I)^-1 y
//
// with a of 1e-8 to 1 times the trace of Z Z', chosen for the smallest leave-one-out error (G.
// H. Golub, M. Heath, G. Wahba: Generalized cross-validation as a method for choosing a good
// ridge parameter, Technometrics 21 (1979) 215-223: in its exact form). A sequence's values
// are w'z: 0 is usual, 1 a deviation of the training sequences. A statistic with one value in
// all sequences is always 0.
//
// All learning is in float64. The result depends neither on the number of threads nor on the
// instruction sets of an amd64 processor.
//
// # Files
//
//   - fit.go: fits a detector
//   - leading.go: computes leading eigenvectors
//   - place.go: fits the usual size of the residual, by place
//   - means.go: learns the distance of running means
//   - later.go: measures the false alarms on the last third of each run
//   - splice.go: finds directions in spliced sequences
//   - inputs.go: computes statistics of inputs; fits weights that read statistics from features
package detect
