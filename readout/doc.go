// Package readout turns a feature vector into class scores and learns how.
//
// A head (Linear) computes
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
// first; the deviation then disappears into Weights.
//
//   - Fit has all samples in memory, solves through the smaller of the n x n
//     kernel and the F x F Gram matrix and chooses alpha by exact
//     leave-one-out.
//   - Gram only keeps moments: any number of samples, mergeable, no second
//     pass, and therefore no leave-one-out.
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
