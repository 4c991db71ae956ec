// Package readout turns a feature vector into class scores and learns how.
//
// A readout (Linear) computes
//
//	scores = Intercept + Weights (features - Center)
//
// in float32 with a fixed order of operations, so that every engine and every
// program gets the same bits. The class is the largest score; with two
// classes there is one score and its sign decides.
//
// Learning is the ridge classifier, or, where Discriminant is asked for and
// leave-one-out prefers it, the regularised linear discriminant, which is the
// ridge classifier's scores times a classes x classes matrix (see the type
// discriminant). The ridge classifier has targets y of +1 for the sample's
// class and -1 for every other; its weights minimise, summed over the samples,
//
//	|y - b - W (x - mean)|^2 + alpha |W|^2
//
// with the intercept b not penalised. x is the raw feature vector, or, where
// Standardise is asked for, each feature divided by its deviation (population)
// first; the deviation then disappears into Weights. Soft divides by a little
// more.
//
//   - Fit has all samples in memory. A Learner is given them block by block.
//   - Where samples are no more than features, both solve through the n x n
//     kernel, for which all features are kept: in memory, or beyond
//     Options.Memory in a temporary file, with the same bits.
//   - Where they are more, both solve through the F x F matrix of their
//     moments, which add up: one pass, and parts that are merged. A Learner
//     keeps the features of at most some 42 million values (4,194 samples of
//     10,000 features), for choosing alpha: whole groups, drawn by a hash of
//     their place. Report.LeftOutSamples says of how many samples the
//     leave-one-out errors are where they are not of all.
//
// Which way is taken, and which samples are drawn, depends on nothing but
// their numbers: neither on memory nor on threads. The readout of merged parts is
// that of one pass up to the rounding of float64 sums, and the same bits for
// the same parts.
//
// Alpha, and the discriminant, are chosen by exact leave-one-out: no sample is
// predicted by a readout that has seen it, nor one of its group (Options.Groups).
// A group g of residuals e becomes (I - H_gg)^-1 e, H being the hat matrix; the
// discriminant's scatter without the group follows by Woodbury's identity (see
// groups.go). That costs the cube of the group's size, and 16 bytes times its
// square; of a group of more samples than features, where those are fewer than
// all samples, the cube and the square of the number of features (see wide.go).
// Groups of one have the bits of samples without groups.
//
// A readout that was chosen has a temperature: the scale at which the scores that
// leave-one-out gives are log-likelihoods, each label being doubted a little
// (temper.go). With it Linear.Probability makes a probability of scores, for
// samples like those of the fit. Guo et al., "On calibration of modern neural
// networks", 2017.
//
// Everything is computed in float64. The result depends neither on the number
// of threads nor on an amd64 processor's instruction sets; other architectures
// may differ in the last bits. alpha = 0 is plain least squares and an error
// where that has no unique solution.
//
// The package knows no reservoir, no file format and no stream. References:
// Hoerl and Kennard 1970 (ridge); Cook and Weisberg 1982 (leave-one-out from
// the hat matrix); Friedman 1989 and Hastie, Buja and Tibshirani 1995 (the
// discriminant).
package readout
