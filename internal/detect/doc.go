// Package detect fits detectors (package novelty), which measure how unlike the training part
// a feature vector is, and how often a sequence like the training's would be as unlike.
//
// The features f of n training sequences are centred and scaled, z_j = (f_j -
// mean_j) * scale_j. V holds their leading principal directions, Dimensions of them
// at most, and n-1 at most. What a vector has outside of them is its residual
//
//	r = z - V V' z
//
// whose squared length is the reconstruction error of a principal component analysis
// (J. E. Jackson, G. S. Mudholkar: Control procedures for residuals associated with
// principal component analysis, Technometrics 21 (1979) 341-349: the statistic Q),
//
//	score = (|z|^2 - |V' z|^2) / unit
//
// The unit is the median of the squared residuals of left-out training sequences: a
// score of 1 is what is usual. V comes from the n x n kernel Z Z' and not from the
// features' covariance. novelty.Detector.Score says in which order its operations are,
// so that other programs get the same bits. A residual that is estimated from 32
// random projections of it, so that an engine could compute it as it computes a
// readout, was measured and is much worse (docs/results.md). So were
// distances within classes: they find more of what lies between two classes, and less of
// the rest.
//
// # By place
//
// Classes differ in their residuals: what is usual for a loud class is far too much for
// a quiet one. So where there are several, Fit divides a residual by what is usual at
// its place within the subspace (novelty.Usual): a ridge regression of the logarithm of left-out
// residuals on the products with the Places leading directions and on their squares
// (R. J. Carroll, D. Ruppert: Transformation and Weighting in Regression, 1988, chapter
// 3: regression of a variance). The products are those that the directions of the left-out
// part's fold would have, turned onto those of all sequences (placed). The penalty is
// chosen by leaving out folds, and what is usual is limited to what it is for the middle
// four fifths of the training part, so that a place that nothing has been at explains
// nothing. Where it predicts no better than a constant, there is no division. For one
// class it was measured to be a little worse, and is not asked for.
//
// # Between classes
//
// A fault that looks like something between two known classes has a small residual. Where
// there are several classes, with at least 80 sequences each, Fit makes vectors that are between
// them: of a sequence and one of another class the features that a sequence would have which is
// like the one for a share of the time, from .35 to .65, and like the other for the rest
// (Splice). With a deviation and a maximum among the features these are not between the others
// on a straight line. A ridge regression tells the spliced from the whole ones, as many of
// each. With two or three classes there is one for each two of them, from spliced vectors of
// these two; with more there is one, of all. The directions, of unit length, come before the
// principal ones, of which there are so many less. They are neither orthogonal to each other nor
// to the principal ones, and take nothing from the residual (novelty.Usual.Between). With t_k the product
// with direction k, m_k and v_k mean and variance of t_k of left-out sequences, and d the
// deviation of the logarithm of their residuals from what is usual,
//
//	.35 d sum_k (t_k - m_k)^2 / v_k
//
// is added to the logarithm of a residual (as a part of novelty.Usual, up to 22.4 d): what is unlike
// whole sequences there is novel, whether it is like a spliced one or the opposite.
// To learn what is normal from what is made to be unlike it is known as outlier exposure
// (D. Hendrycks, M. Mazeika, T. Dietterich: Deep anomaly detection with outlier exposure, ICLR
// 2019).
//
// # The p-value
//
// The training sequences are divided into Folds parts. For each, mean, scale and V
// are computed again from the others alone, and then the scores of the part, divided by
// what a regression without the part calls usual. These
// scores are of sequences that had no part in what scores them, as a new one has
// none. With n of them
//
//	p = (1 + those that are not smaller) / (n + 1)
//
// is at most alpha in a share alpha of sequences like the training's, for every alpha
// (V. Vovk: Cross-conformal predictors, Annals of Mathematics and Artificial
// Intelligence 74 (2015) 9-28: to a factor of two in the worst case, and closely in
// practice; the last V is of all sequences, more than in each part, so that p is
// rather too large). p is never below 1/(n+1): a false-alarm rate of .001 needs 999
// training sequences. Where sequences are not independent of each other, such as
// windows of one stream, groups are left out together, and the share holds for new
// groups.
//
// # Inputs
//
// Features are linear in what a network has seen, as good as: so level, spread and pace of
// each channel can be read from them, and no state has to keep them. For each channel and
// each of three statistics of the n sequences (Statistics), centred and divided by its
// deviation, ridge regression on z has the weights
//
//	w = Z' (Z Z' + a I)^-1 y
//
// with a of 1e-8 to 1 times the trace of Z Z', the one that leaves the
// smallest leave-one-out error (G. H. Golub, M. Heath, G. Wahba: Generalized
// cross-validation as a method for choosing a good ridge parameter, Technometrics 21 (1979)
// 215-223: in its exact form). A sequence's values are w'z: 0 is usual, 1 a deviation of
// the training sequences. A statistic that is the same in all of them is always 0.
//
// Everything is learnt in float64. It depends neither on the number of threads nor
// on the instruction sets of an amd64 processor.
//
// # Files
//
//   - fit.go: fits a detector
//   - leading.go: computes leading eigenvectors
//   - place.go: fits the usual size of the residual, by place
//   - splice.go: finds directions in spliced sequences
//   - inputs.go: computes statistics of inputs; fits what reads them from features
package detect
