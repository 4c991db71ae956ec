// Package fit fits readouts (readout.Linear) to labeled feature vectors.
//
// Fit fits a ridge classifier. If Discriminant is set and better by leave-one-out, Fit takes
// the regularized linear discriminant: the ridge classifier's scores times a classes x classes
// matrix (see the type discriminant). The ridge classifier has targets y of +1 for the
// sample's class and -1 for every other class; its weights minimize, summed over the samples,
//
//	|y - b - W (x - mean)|^2 + alpha |W|^2
//
// with the intercept b not penalized. x is the raw feature vector. With Standardize each
// feature is first divided by its deviation (population), and the deviation becomes part of
// Weights. Soft divides by a little more, and may clip the quotient; the clip becomes Limit.
//
// With class weights (Options.ClassWeights) each sample's term is multiplied by its class's
// weight, and the mean is the weighted mean.
//
//   - Fit has all samples in memory. A Learner receives samples in blocks.
//   - With at most as many samples as features, both solve through the
//     n x n kernel. The kernel needs all features: in memory, or beyond Options.Memory in
//     a temporary file, with the same bits.
//   - With more samples, both solve through the F x F matrix of their moments.
//     Moments add up: one pass is enough, and parts can be merged. A
//     clip requires an earlier pass for the limits (Learner.Measure). To choose
//     alpha, a Learner keeps at most about 42 million feature values (4,194
//     samples of 10,000 features): whole groups, drawn by a hash of their place.
//     Report.LeftOutSamples is the number of samples in the leave-one-out errors,
//     if not all.
//
// The choice of solver and the drawn samples depend only on the numbers of samples and
// features, never on memory or threads. Merged parts give the readout of one pass, except for
// the rounding of float64 sums, and equal parts give the same bits.
//
// SolveSums fits a readout from sums of samples that are exact integers (package exact).
//
// Alpha, and the discriminant, are chosen by exact leave-one-out: no sample is predicted by a
// readout trained on the sample or on another sample of its group (Options.Groups). The
// residuals e of a group g become (I - H_gg)^-1 e, where H is the hat matrix; the
// discriminant's scatter without the group follows from Woodbury's identity (see groups.go).
// The cost is the cube of the group's size, and 16 bytes times its square. For a group with
// more samples than features, if there are fewer features than samples, the cost is the cube
// and the square of the number of features (see wide.go). Groups of one give the same bits as
// samples without groups.
//
// The chosen readout has a temperature: with this scale the leave-one-out scores are
// log-likelihoods; each label is assumed to be wrong with a small probability (temper.go).
// From the scaled scores readout.Linear.Probability computes probabilities, for samples like
// the training samples. Guo et al., "On calibration of modern neural networks", 2017.
//
// All computation is in float64. The result depends neither on the number of threads nor on
// the instruction sets of an amd64 processor; other architectures may differ in the last bits.
// alpha = 0 is plain least squares, and an error if there is no unique solution.
//
// The package is independent of reservoirs, file formats and streams. References: Hoerl and
// Kennard 1970 (ridge); Cook and Weisberg 1982 (leave-one-out from the hat matrix); Friedman
// 1989 and Hastie, Buja and Tibshirani 1995 (the discriminant).
//
// The limits of features are fitted in soft.go and clip.go and applied in readout/linear.go.
//
// # Files
//
//   - report.go: defines the report of a fit
//   - coverage.go: fits and adapts thresholds of sets, intervals and abstention
//   - priors.go: applies the expected shares of the classes
//   - temper.go: fits the temperature of probabilities
//   - fit.go: fits a readout from samples in memory (Fit)
//   - check.go: checks samples and options
//   - learner.go: fits a readout from samples block by block (Learner)
//   - plan.go: plans memory, files and time of a fit
//   - leaveout.go: scores samples left out; chooses the regularization
//   - groups.go: leaves out groups of samples
//   - wide.go: leaves out groups that are larger than the number of features
//   - outer.go: scores outer groups, such as machines
//   - primal.go: solves normal equations by features
//   - kernel.go: solves normal equations by samples
//   - ridge.go: builds a readout from a ridge solution
//   - discriminant.go: fits the linear discriminant
//   - targets.go: codes classes and numbers as targets
//   - weights.go: computes the weights of classes
//   - moments.go: sums samples and outer products
//   - measure.go: computes means and variances of features
//   - space.go: scales features
//   - soft.go: computes soft scales of features
//   - clip.go: limits features
//   - samples.go: keeps samples in memory or in a file
//   - triangle.go: keeps a triangular matrix in memory or in a file
//   - search.go: searches the regularization
//   - statistics.go: encodes the statistics of one shard of a training
//   - sums.go: fits a readout from exact sums
package fit
