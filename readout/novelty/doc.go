// Package novelty measures the distance of a feature vector from the training part, and how
// often a sequence like the training's is as distant. Package internal/detect fits detectors
// and documents the method and the sources.
//
// With features f that are centered and scaled, z_j = (f_j - Center_j) * Scale_j, and Axes V,
//
//	score = (|z|^2 - |V' z|^2) / Unit
//
// is the squared length of the residual outside the directions of the training part; with a
// Usual, it is divided by the usual residual at its place within the directions. With Means, the
// squared distance of running means of the samples is added. With n scores of left-out training
// sequences,
//
//	p = (1 + number of left-out scores that are not smaller) / (n + 1)
//
// is at most alpha in a share alpha of sequences like the training's. Inputs are values that
// are linear in z: level, spread and pace of each channel, in deviations of the training
// sequences.
//
// # Files
//
//   - detector.go: scores how unlike the training data a sequence is
//   - usual.go: computes the usual size of the residual
//   - means.go: adds the distance of running means
package novelty
